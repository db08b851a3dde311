"""What holds for a connection holds for an encrypted one: these tests are those of connections, on a server with TLS.

Left out are those that look whether a socket is readable: over TLS it is so before there is an answer.
"""

from __future__ import annotations

from tests.wire.connections.test_cut_short import (
    test_a_chunk_that_is_none,
    test_a_head_that_is_too_large_as_a_whole,
    test_a_refusal_that_needs_no_body_does_not_wait_for_it,
    test_continue_is_said_where_the_body_is_wanted,
    test_gone_inside_the_body,
    test_half_closed_after_a_whole_request_is_answered,
    test_half_closed_inside_chunks,
    test_half_closed_inside_the_body,
    test_more_than_the_last_request_costs_nobody_its_answer,
    test_what_follows_a_whole_request_does_not_take_the_place_of_its_answer,
    test_what_is_no_request_gets_a_problem_all_the_same,
    there,
)
from tests.wire.connections.test_pipelined import (
    test_bodies_of_every_framing_and_size,
    test_many_small_ones_are_parsed_as_they_are_answered,
)

__all__ = [
    "test_a_chunk_that_is_none",
    "test_a_head_that_is_too_large_as_a_whole",
    "test_a_refusal_that_needs_no_body_does_not_wait_for_it",
    "test_bodies_of_every_framing_and_size",
    "test_continue_is_said_where_the_body_is_wanted",
    "test_gone_inside_the_body",
    "test_half_closed_after_a_whole_request_is_answered",
    "test_half_closed_inside_chunks",
    "test_half_closed_inside_the_body",
    "test_many_small_ones_are_parsed_as_they_are_answered",
    "test_more_than_the_last_request_costs_nobody_its_answer",
    "test_what_follows_a_whole_request_does_not_take_the_place_of_its_answer",
    "test_what_is_no_request_gets_a_problem_all_the_same",
    "there",
]

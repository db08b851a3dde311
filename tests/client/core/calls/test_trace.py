"""Each attempt has an id: in its request, in the log of both sides, and in the error that it leads to."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import Any

import pytest

from milepost.core.calls.request import Request
from milepost.errors import ConnectionFailed, DeadlineExceeded, MilepostError, NotExist, OutcomeUnknown, Unavailable
from milepost.wire import Code, Header
from tests.client.core.world import (
    CHANGE,
    CUT,
    NO_LEADER,
    OK,
    READ,
    REFUSED,
    SILENT,
    A,
    B,
    Result,
    World,
    call,
    problem,
    to_leader,
)


def test_each_attempt_has_an_id_of_its_own_behind_that_of_the_call() -> None:
    world = World(REFUSED, to_leader(B), OK, OK)
    call(world, READ)
    call(world, READ)
    ids = [str(sent) for sent in world.header(Header.REQUEST_ID)]
    assert all(re.fullmatch(r"[0-9a-f]{16}-[0-9]+", each) for each in ids)
    first, last = ids[0].partition("-")[0], ids[3].partition("-")[0]
    assert ids == [f"{first}-1", f"{first}-2", f"{first}-3", f"{last}-1"]
    assert first != last


def test_a_refusal_names_its_request() -> None:
    world = World(problem(Code.NOT_EXIST))
    with pytest.raises(NotExist) as raised:
        call(world, READ)
    assert [raised.value.request_id] == world.header(Header.REQUEST_ID)


def test_the_id_of_the_answer_counts_more_since_a_proxy_may_have_given_another() -> None:
    answer = problem(Code.NOT_EXIST)
    for given, kept in (("of-the-proxy", True), ("two words", False), ("x" * 129, False)):
        world = World(replace(answer, headers={**answer.headers, "x-request-id": given}))
        with pytest.raises(NotExist) as raised:
            call(world, READ)
        assert (raised.value.request_id == given) is kept
        assert kept or raised.value.request_id == world.header(Header.REQUEST_ID)[0]


@pytest.mark.parametrize(
    ("script", "request_", "error"),
    [
        ([REFUSED], READ, ConnectionFailed),
        ([SILENT], READ, DeadlineExceeded),
        ([NO_LEADER], READ, Unavailable),
        ([CUT], CHANGE, OutcomeUnknown),
    ],
)
def test_a_call_that_is_given_up_names_its_last_request(
    script: list[Result], request_: Request[Any], error: type[MilepostError]
) -> None:
    world = World(*script * 1000, addresses=[A])
    with pytest.raises(error) as raised:
        call(world, request_, timeout=5.0)
    assert raised.value.request_id == world.header(Header.REQUEST_ID)[-1]


def test_a_call_that_sent_nothing_names_no_request() -> None:
    with pytest.raises(DeadlineExceeded) as raised:
        call(World(), READ, timeout=0.0)
    assert raised.value.request_id is None


def test_each_request_is_logged_for_those_who_look_closely(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "milepost.calls")
    world = World((0.25, REFUSED), (0.5, OK))
    call(world, READ)
    first, second = (str(each) for each in world.header(Header.REQUEST_ID))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert f"GET /v1/stores/s/handles at {A}: no answer, 250 ms, attempt 1, request {first}" in lines
    assert f"GET /v1/stores/s/handles at {B}: status 200, 500 ms, attempt 2, request {second}" in lines
    assert "a%2Fb" not in caplog.text  # the query

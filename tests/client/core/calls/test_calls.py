"""One call makes attempts under one key, until its deadline. Scripted answers, virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from milepost.core.calls.calls import KEY_LIFETIME
from milepost.core.calls.request import Request
from milepost.errors import AccessDenied, OutcomeUnknown, Unavailable
from milepost.wire import Code
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
    Reaction,
    World,
    adding,
    call,
    problem,
    to_leader,
)

# Keys and attempts


def test_every_try_of_a_change_carries_the_same_key_and_its_count() -> None:
    world = World(CUT, NO_LEADER, problem(Code.OUTCOME_UNKNOWN), OK)
    call(world, CHANGE)
    assert world.header("Idempotency-Key") == ["id-1"] * 4
    assert world.header("Milepost-Attempt") == ["1", "2", "3", "4"]


def test_the_next_call_has_a_key_of_its_own() -> None:
    world = World(OK, OK)
    call(world, CHANGE)
    call(world, CHANGE)
    assert world.header("Idempotency-Key") == ["id-1", "id-2"]


def test_a_redirect_or_a_refused_connection_is_no_attempt() -> None:
    world = World(to_leader(B), REFUSED, OK)
    call(world, CHANGE)
    assert world.header("Milepost-Attempt") == ["1", "1", "1"]


def test_a_read_carries_no_key() -> None:
    world = World(CUT, OK)
    call(world, READ)
    assert world.header("Idempotency-Key") == [None, None]
    assert world.header("Milepost-Attempt") == [None, None]


def test_a_key_is_not_used_for_longer_than_the_service_surely_knows_it() -> None:
    world = World(CUT, *[(100.0, NO_LEADER)] * 20, addresses=[A])
    world.caller = world.make_caller(timeout=10_000.0)
    with pytest.raises(OutcomeUnknown, match="forgotten the idempotency key"):
        world.run(world.caller.call(CHANGE, attempt_timeout=200.0))
    assert KEY_LIFETIME <= world.now - 1000.0 < KEY_LIFETIME + 110


# Time


def test_a_leader_is_looked_for_in_short_steps_that_grow_with_the_search() -> None:
    nobody: list[Reaction] = [REFUSED, problem(Code.NO_LEADER, retry_after=1)]
    world = World(*nobody * 1000, addresses=[A, B])
    with pytest.raises(Unavailable):
        call(world, CHANGE, timeout=60.0)
    moments = list(itertools.accumulate(world.slept, initial=0.0))
    assert all(rest <= 0.25 for rest, at in zip(world.slept, moments, strict=False) if at < 5.0)
    assert all(rest > 0.5 for rest, at in zip(world.slept[:-1], moments, strict=False) if at > 40.0)


def test_retry_after_is_honoured() -> None:
    world = World(problem(Code.NO_LEADER, retry_after=3), REFUSED, NO_LEADER, OK)
    call(world, CHANGE)
    assert len(world.slept) == 1
    assert 3.0 < world.slept[0] < 3.1


def test_when_the_service_asks_for_more_time_than_is_left_the_call_ends_at_once() -> None:
    world = World(problem(Code.TOO_MANY_REQUESTS, retry_after=60))
    with pytest.raises(Unavailable) as raised:
        call(world, CHANGE, timeout=5.0)
    assert raised.value.retry_after == 60
    assert world.now == 1000.0


def test_rests_grow_with_jitter_up_to_a_limit() -> None:
    world = World(*[problem(Code.STORAGE_UNAVAILABLE)] * 12, OK, addresses=[A])
    call(world, CHANGE)
    assert 0.025 <= world.slept[0] <= 0.05
    assert all(1.0 <= seconds <= 2.0 for seconds in world.slept[6:])
    assert len(set(world.slept)) == 12


def test_one_that_hangs_is_left_in_time_for_the_others() -> None:
    world = World((1000.0, SILENT), OK)
    call(world, CHANGE)
    assert world.targets == [A, B]
    assert world.now == 1003.0


def test_a_long_poll_may_take_as_long_as_it_was_asked_to() -> None:
    world = World((1000.0, SILENT), OK)
    call(world, Request("POST", "/v1/stores/s/epoch", wait=20.0), timeout=50.0)
    assert world.sent[0].timeout == 23.0


def test_a_body_may_take_time_by_its_size() -> None:
    world = World(OK, OK, OK, OK)
    world.replicas.leader = A
    call(world, adding(b"x" * 5 * 1024 * 1024))
    call(world, adding(b"x" * 25 * 1024 * 1024))
    call(world, adding(iter([b"x"])))
    assert [send.timeout for send in world.sent if send.method == "POST"] == [8.0, 28.0, 30.0]


# Credentials


def test_the_token_goes_with_every_attempt_and_may_change() -> None:
    tokens = iter(["first", "second"])
    world = World(to_leader(B), OK)
    world.caller = world.make_caller(token=lambda: next(tokens))
    call(world, CHANGE)
    assert world.header("Authorization") == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("token", ["secret\r\nX: y", "  ", "sécret"])
def test_a_token_that_cannot_stand_in_a_header_is_refused_without_being_quoted(token: str) -> None:
    world = World()
    with pytest.raises(ValueError, match="printable") as raised:
        world.make_caller(token=token)
    assert "secret" not in str(raised.value)
    world.caller = world.make_caller(token=lambda: token)
    with pytest.raises(AccessDenied) as denied:
        call(world, CHANGE)
    assert "secret" not in str(denied.value)


def test_a_token_that_is_not_to_be_had_ends_the_call_as_far_as_it_came() -> None:
    def missing() -> str:
        raise FileNotFoundError("/var/run/secrets/token")

    world = World()
    world.caller = world.make_caller(token=missing)
    with pytest.raises(AccessDenied, match="FileNotFoundError") as denied:
        call(world, CHANGE)
    assert isinstance(denied.value.__cause__, FileNotFoundError)
    world = World(CUT)
    tokens: list[Callable[[], str]] = [lambda: "first", missing]
    world.caller = world.make_caller(token=lambda: tokens.pop(0)())
    with pytest.raises(OutcomeUnknown):
        call(world, CHANGE)

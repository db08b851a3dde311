"""A token that is asked for: before each attempt, and once more after a 401."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import milepost
from milepost.core.calls.credentials import Credentials
from milepost.errors import AccessDenied
from milepost.wire import Code, Header
from tests.client.core.world import CHANGE, CUT, OK, World, adding, call, problem

DENIED = problem(Code.UNAUTHENTICATED)


def numbered() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"token-{number}"


def test_after_a_401_the_token_is_asked_for_once_more() -> None:
    world, tokens = World(DENIED, OK), numbered()
    world.caller = world.make_caller(token=lambda: next(tokens))
    call(world, adding())
    assert world.header("Authorization") == ["Bearer token-1", "Bearer token-2"]
    assert world.bodies == [b"state", b"state"]
    keys = world.header(Header.IDEMPOTENCY_KEY)
    assert keys[0] == keys[1] is not None
    assert world.header(Header.ATTEMPT) == ["1", "1"]  # the first one was not looked at
    assert world.slept == []


def test_a_second_401_ends_the_call() -> None:
    world, tokens = World(DENIED, DENIED), numbered()
    world.caller = world.make_caller(token=lambda: next(tokens))
    with pytest.raises(AccessDenied):
        call(world, CHANGE)


def test_a_token_that_was_given_is_not_tried_again() -> None:
    world = World(DENIED)
    world.caller = world.make_caller(token="given")
    with pytest.raises(AccessDenied):
        call(world, CHANGE)


def test_a_403_is_not_tried_again() -> None:
    world, tokens = World(problem(Code.FORBIDDEN)), numbered()
    world.caller = world.make_caller(token=lambda: next(tokens))
    with pytest.raises(AccessDenied):
        call(world, CHANGE)


def test_a_state_that_can_be_sent_only_once_is_not_sent_again() -> None:
    world, tokens = World(problem(Code.NOT_EXIST), DENIED), numbered()  # the first answers the search for the leader
    world.caller = world.make_caller(token=lambda: next(tokens))
    with pytest.raises(AccessDenied):
        call(world, adding(iter([b"state"])))
    assert [send.method for send in world.sent] == ["HEAD", "POST"]


def test_a_401_after_a_write_in_doubt_may_be_repeated_as_the_key_is_the_same() -> None:
    world, tokens = World(CUT, DENIED, OK), numbered()
    world.caller = world.make_caller(token=lambda: next(tokens))
    call(world, CHANGE)
    assert len(set(world.header(Header.IDEMPOTENCY_KEY))) == 1


@pytest.mark.parametrize("returned", [None, 7, b"bytes"])
def test_what_is_no_text_is_refused(returned: Any) -> None:
    world = World()
    world.caller = world.make_caller(token=lambda: returned)
    with pytest.raises(AccessDenied, match="TypeError"):
        call(world, CHANGE)


def test_a_coroutine_function_is_for_coroutines() -> None:
    async def token() -> str:
        return "token"

    class Token:
        async def __call__(self) -> str:
            return "token"

    for each in (token, Token()):
        with pytest.raises(TypeError, match=r"milepost\.aio only"):
            milepost.Client("http://127.0.0.1:1", token=each)  # type: ignore[arg-type]


def test_credentials_do_not_show_the_token() -> None:
    assert "very-secret" not in repr(Credentials("very-secret"))

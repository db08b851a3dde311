"""Calls that hang: how many threads they may keep, and that those come back.

The calls are made up: what counts is that they do not end, and a server that hangs so often at the right moment is not
to be had.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from milepost_backends.hdfs.threads import ThreadsWithTimeout, Unanswered
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

MANY = 101
LIMIT = 32


@pytest.fixture
def free() -> Iterator[threading.Event]:
    """Set when the calls may end."""
    event = threading.Event()
    yield event
    event.set()


async def asked(threads: ThreadsWithTimeout, call: Callable[[], bool]) -> None:
    with pytest.raises(Unanswered):
        await threads.ask(call)


async def acted(threads: ThreadsWithTimeout, call: Callable[[], bool]) -> None:
    with pytest.raises(Unanswered):
        await threads.act(call)


async def cancelled(threads: ThreadsWithTimeout, call: Callable[[], bool]) -> None:
    asking = asyncio.ensure_future(threads.ask(call))
    await asyncio.sleep(0.001)
    asking.cancel()
    with pytest.raises((asyncio.CancelledError, Unanswered)):
        await asking


@pytest.mark.parametrize("hanging", [asked, acted, cancelled])
async def test_no_more_than_so_many_calls_are_left_behind(
    free: threading.Event, hanging: Callable[[ThreadsWithTimeout, Callable[[], bool]], Awaitable[None]]
) -> None:
    threads = ThreadsWithTimeout(0.02)
    begun = 0

    def hang() -> bool:
        nonlocal begun
        begun += 1
        return free.wait(600)

    for _ in range(MANY):
        await hanging(threads, hang)
    assert (begun, threads.left_behind, threads.full) == (LIMIT, LIMIT, True)
    free.set()

    async def back() -> bool:
        return threads.left_behind == 0

    await until(back)
    assert await ThreadsWithTimeout(60.0).ask(lambda: 1) == 1
    assert not threads.full


async def test_who_has_only_waited_for_others_is_told_so(free: threading.Event) -> None:
    """It says nothing about a server, and must not be taken for its silence."""
    threads = ThreadsWithTimeout(0.05)
    others = [asyncio.ensure_future(threads.act(lambda: free.wait(600), 600.0)) for _ in range(LIMIT)]
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError) as late:
        await threads.ask(lambda: True)
    assert not isinstance(late.value, Unanswered)
    free.set()
    assert all(await asyncio.gather(*others))


async def test_what_a_call_raises_after_nobody_waits_is_nobodys(free: threading.Event) -> None:
    threads = ThreadsWithTimeout(0.02)

    def fail() -> bool:
        free.wait(600)
        raise OSError("too late")

    await asked(threads, fail)
    free.set()

    async def back() -> bool:
        return threads.left_behind == 0

    await until(back)

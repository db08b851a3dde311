"""Waiting with a deadline that holds, also for work that cannot be broken off at once.

A step in a thread ends before it lets its cancellation through, so that nobody cleans up under it. Whoever waits must
not wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, act: Awaitable[T]) -> T:
    """The result of ``act``. Raises `TimeoutError` when the time is up: then ``act`` is cancelled, and ends by itself.

    So it does when the waiting is cancelled.
    """
    task = asyncio.ensure_future(act)
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        task.cancel()
        task.add_done_callback(seen)  # also where it ended just when the waiting was cancelled
    if not task.done():
        raise TimeoutError(f"no answer within {seconds:g} s")
    return task.result()


def seen(task: asyncio.Future[T]) -> None:
    """Nobody waits any more, which is no error."""
    if not task.cancelled():
        task.exception()

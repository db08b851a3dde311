"""Wait with a timeout that holds even for work that cannot be cancelled at once.

A step that runs in a thread ends before its cancellation takes effect, so that nothing is cleaned up while it runs. The
caller must not wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Awaitable[T]) -> T:
    """Return the result of ``work``. Raises TimeoutError after ``seconds``.

    ``work`` is then cancelled, and ends by itself; this also happens when the caller is cancelled while it waits.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        task.cancel()
        task.add_done_callback(seen)  # also if it ended just when the caller was cancelled
    if not task.done():
        raise TimeoutError(f"no answer within {seconds:g} s")
    return task.result()


def seen(task: asyncio.Future[T]) -> None:
    """Mark the exception of a task as seen: nothing waits for the task any more, which is no error."""
    if not task.cancelled():
        task.exception()

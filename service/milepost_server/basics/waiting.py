"""Waits for work: with a timeout that holds even if the work cannot be cancelled at once, and for several tasks
together.

A step in a thread ends before its cancellation takes effect, so that no clean-up runs beside it. The caller must not
wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Coroutine, Iterable
from typing import Any, TypeVar

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
        task.add_done_callback(seen)  # needed also if the task ended just when the caller was cancelled
    if not task.done():
        raise TimeoutError(f"no answer within {seconds:g} s")
    return task.result()


def seen(task: asyncio.Future[T]) -> None:
    """Mark the exception of a task as seen: nothing waits for the task any more, which is no error."""
    if not task.cancelled():
        task.exception()


async def gather_or_cancel(parts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all parts, at least one, until they have ended. If one fails, the others are cancelled.

    Raises the error of the first part that failed, unchanged.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def first_of(tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait until the first of the tasks has ended, raise its error, and cancel the others."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()

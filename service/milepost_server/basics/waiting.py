"""Waits for work: with a timeout that holds even if the work cannot be cancelled at once, and for several tasks
together.

A step that runs in a thread cannot be interrupted: its cancellation takes effect only when the step has ended. A caller
whose time is up must not wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Awaitable[T]) -> T:
    """Return the result of ``work``. Raises TimeoutError after ``seconds``.

    ``work`` is then cancelled, and the function does not wait for its end. The same happens if the caller is cancelled.
    """
    task = asyncio.ensure_future(work)
    try:
        ended = await ended_within(seconds, task)
    finally:
        task.cancel()
        # Perhaps nothing awaits the task any more: `seen` retrieves its exception, so that asyncio does not log it as
        # never retrieved.
        task.add_done_callback(seen)
    if not ended:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return task.result()


async def ended_within(seconds: float, task: asyncio.Future[T]) -> bool:
    """Wait until a task has ended, at most for ``seconds``, and return whether it has. The task goes on. This costs a
    third of the processor time of `asyncio.wait`.
    """
    if task.done():
        return True
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end(_task: object = None) -> None:
        if not ended.done():
            ended.set_result(None)

    task.add_done_callback(end)
    timer = loop.call_later(seconds, end)
    try:
        await ended
    finally:
        timer.cancel()
        task.remove_done_callback(end)
    return task.done()


def seen(task: asyncio.Future[T]) -> None:
    """Mark the exception of a task that nothing waits for any more as retrieved, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


async def gather_or_cancel(parts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all parts, at least one, until they have ended. If one part fails, the others are cancelled, and its error is
    raised unchanged.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def first_of(tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait until one of the tasks has ended, cancel the others, and raise the error of the ended task if it failed."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()

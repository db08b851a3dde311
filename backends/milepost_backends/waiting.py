"""Waits for work that must not be left half done, and runs blocking calls in threads.

`finish` waits until work has ended even if its caller is cancelled, so that no clean-up meets work that still runs on
the same objects. `run_in_executor` does the same for a call in a thread of a pool. `begin_in_thread` starts a call that
may hang in a thread of its own, which does not keep the process alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def finish(
    work: Awaitable[T], seconds: float | None = None, *, withdraw: Callable[[], bool] = lambda: False
) -> T:
    """Return the result of ``work``, which runs to its end even if the caller is cancelled.

    A cancellation is passed on when the work has ended, or ``seconds`` are over. ``withdraw`` is called at a
    cancellation. If it returns True, the work never began and never will, and the cancellation is passed on at once.
    Raises TimeoutError after ``seconds``; the work then continues without a caller.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                break
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
            if withdraw():
                break
    if cancelled is not None:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, lest asyncio logs it: the cancellation is raised instead
        raise cancelled
    if not task.done():
        raise TimeoutError
    return task.result()


async def run_in_executor(executor: Executor, call: Callable[..., T], *arguments: object) -> T:
    """Return the result of ``call``, which runs in a thread of ``executor``.

    A cancellation is passed on when the call has ended, or at once if it never began.
    """
    job = executor.submit(call, *arguments)
    return await finish(asyncio.wrap_future(job), withdraw=job.cancel)


def begin_in_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Start ``call`` in a new daemon thread of this name, and return the future of its result.

    A call that hangs does not keep the process alive.
    """
    running: Future[T] = Future()
    running.set_running_or_notify_cancel()
    Thread(target=_run, args=(call, running), name=name, daemon=True).start()
    return running


def _run(call: Callable[[], T], running: Future[T]) -> None:
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - the exception is raised from the future, as with any executor
        running.set_exception(error)
    else:
        running.set_result(result)

"""Blocking work in threads: in steps that end before anybody goes on, or in threads that may be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def whole_step(executor: Executor, act: Callable[..., T], *arguments: object) -> T:
    """Run ``act`` in a thread. A cancellation is passed on once ``act`` has ended, or if it never began.

    So whoever cleans up after a cancellation finds no thread still at work on what is cleaned up.
    """
    job = executor.submit(act, *arguments)
    ended = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if not job.cancel():
            while not ended.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([ended])
            ended.exception()  # seen; the cancellation goes first
        raise


def begun(call: Callable[[], T], name: str) -> Future[T]:
    """The call's end, from a new thread of this name. If the call hangs, the thread does not keep the process alive."""
    running: Future[T] = Future()
    running.set_running_or_notify_cancel()
    Thread(target=_run, args=(call, running), name=name, daemon=True).start()
    return running


def _run(call: Callable[[], T], running: Future[T]) -> None:
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - whoever waits gets it, as from any executor
        running.set_exception(error)
    else:
        running.set_result(result)

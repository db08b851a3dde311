"""A thread that does the blocking calls of one resource, one after the other.

`concurrent.futures` and asyncio's bridge to it take six times as many instructions for a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[..., Any], tuple[object, ...]]


class Worker:
    """One daemon thread, which begins with this object and ends after `end`. Its calls run in the order of `run`."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        Thread(target=self._work, name=name, daemon=True).start()

    def run(self, call: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
        """Run a call in the thread, and return the future of its result in the running event loop.

        If the future is cancelled before the call has begun, the call is not made; a call that has begun runs to its
        end.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((loop, future, call, arguments))
        return future

    def end(self) -> None:
        """End the thread after the calls that were given to it so far."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, call, arguments = job
            if future.cancelled():
                continue
            result: Any = None
            failure: BaseException | None = None
            try:
                result = call(*arguments)
            except BaseException as error:  # noqa: BLE001 - the exception is raised from the future, as with any executor
                failure = error
            try:  # noqa: SIM105 - `suppress` takes as long as the rest of this loop
                loop.call_soon_threadsafe(_end, future, result, failure)
            except RuntimeError:
                pass  # the event loop is closed: nobody waits any more
            del job, future, call, arguments, result, failure


def _end(future: asyncio.Future[T], result: T, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)

"""Blocking calls that may hang: each in a thread that is left behind after its time, and lets the process end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Final, TypeVar

from backends.blobs.ending import ended

T = TypeVar("T")

_AT_ONCE: Final = 32
# What was left behind ends when its connection does. Until then each is a thread, and not more than this.
_LEFT_BEHIND: Final = 100


class PatientThreads:
    """Each call has ``seconds``. Raises TimeoutError after those, and at once where too many calls hang already."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._left_behind = 0
        self._counting = Lock()

    async def ask(self, call: Callable[[], T]) -> T:
        """The call's result. A cancellation leaves the call to itself."""
        async with asyncio.timeout(self._seconds), self._slots:
            return await self._result(call, lambda running: running)

    async def act(self, call: Callable[[], T]) -> T:
        """The same for what changes something: a cancellation is passed on once the call has ended, or its time."""
        async with self._slots:
            return await self._result(call, lambda running: ended(running, self._seconds))

    async def _result(self, call: Callable[[], T], waited_for: Callable[[asyncio.Future[T]], Awaitable[T]]) -> T:
        running = self._started(call)
        result = asyncio.wrap_future(running)
        try:
            return await waited_for(result)
        finally:
            if not result.done():
                result.cancel()
                with self._counting:
                    self._left_behind += 1
                running.add_done_callback(self._ended)

    def _started(self, call: Callable[[], T]) -> Future[T]:
        if self._left_behind >= _LEFT_BEHIND:
            raise TimeoutError
        running: Future[T] = Future()
        running.set_running_or_notify_cancel()
        Thread(target=_run, args=(call, running), name="hdfs", daemon=True).start()
        return running

    def _ended(self, _: Future[T]) -> None:
        with self._counting:
            self._left_behind -= 1


def _run(call: Callable[[], T], running: Future[T]) -> None:
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - whoever waits gets it, as from any executor
        running.set_exception(error)
    else:
        running.set_result(result)

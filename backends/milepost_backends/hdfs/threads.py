"""Run blocking calls that may hang, each in a thread of its own.

A thread whose call takes too long is left behind: nobody waits for it, and it does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Lock
from typing import Final, TypeVar

from milepost_backends.waiting import begin_in_thread, finish

T = TypeVar("T")

_AT_ONCE: Final = 32
# A thread that was left behind ends when its connection does. There are at most so many of them.
_LEFT_BEHIND: Final = 32


class Unanswered(TimeoutError):
    """A call has not ended in its time; or it was not begun, because too many earlier ones have not ended."""


class ThreadsWithTimeout:
    """Run each call for ``seconds`` at most. Raises `Unanswered`, and TimeoutError if no thread was free meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._left_behind = 0
        self._counting = Lock()

    @property
    def left_behind(self) -> int:
        """Return how many calls still run although nobody waits for them."""
        return self._left_behind

    @property
    def full(self) -> bool:
        """Return whether so many calls are left behind that no other is begun."""
        return self._left_behind >= _LEFT_BEHIND

    async def ask(self, call: Callable[[], T]) -> T:
        """Return the call's result. A cancellation leaves the call to itself."""
        async with self._slot():
            return await self._result(call, self._answer)

    async def act(self, call: Callable[[], T], seconds: float | None = None) -> T:
        """Return the result of a call that changes something, within ``seconds`` where they are given.

        A cancellation is passed on once the call has ended, or its time is over.
        """
        async with self._slot():
            return await self._result(call, lambda result: _end(result, seconds or self._seconds))

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None, None]:
        async with asyncio.timeout(self._seconds):
            await self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()

    async def _answer(self, result: asyncio.Future[T]) -> T:
        """Wait for a result. A timeout around the future would end the future, and not the call."""
        await asyncio.wait((result,), timeout=self._seconds)
        if not result.done():
            raise Unanswered
        return result.result()

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
            elif not result.cancelled():
                result.exception()  # marked as retrieved, also where a cancellation came first

    def _started(self, call: Callable[[], T]) -> Future[T]:
        if self.full:
            raise Unanswered
        return begin_in_thread(call, "hdfs")

    def _ended(self, _: Future[T]) -> None:
        with self._counting:
            self._left_behind -= 1


async def _end(result: asyncio.Future[T], seconds: float) -> T:
    try:
        return await finish(result, seconds)
    except TimeoutError as error:
        if result.done():  # the call itself raised it
            raise
        raise Unanswered from error

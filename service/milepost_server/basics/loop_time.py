"""Divides long work on the event loop into turns, so that other requests are served in between.

The event loop runs all tasks that are ready before it polls for new input. If each of many long tasks yielded after its
own short turn, all of them together would still delay the poll for long. So all long tasks share one budget of time
between two polls for input.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count, islice
from typing import Final, TypeVar

T = TypeVar("T")

TURN_SECONDS: Final = 0.002
_BATCH: Final = 64
_WOKEN_AT_ONCE: Final = 8


class Turn:
    """A turn of a long task on the event loop. Between two steps of its work, the task reads `used_up`, and awaits
    `next` if that is true.
    """

    def __init__(self, loop_time: LoopTimeBudget) -> None:
        self._loop_time = loop_time
        self._began = loop_time.clock()

    @property
    def used_up(self) -> bool:
        """Whether the loop time that all long tasks share is used up, so that this task should give way."""
        return self._loop_time.used + self._loop_time.clock() - self._began >= self._loop_time.seconds

    async def next(self) -> None:
        """End this turn, so that other tasks run, and wait for the next turn of this task."""
        self.end()
        await self._loop_time.wait()
        self._began = self._loop_time.clock()

    def end(self) -> None:
        """Charge the time since the turn began to the loop time that all long tasks share."""
        now = self._loop_time.clock()
        self._loop_time.use(now - self._began)
        self._began = now


class LoopTimeBudget:
    """The time on the event loop that all long tasks share.

    The tasks get their turns in the order in which they asked for them. All turns together may use ``seconds`` between
    two polls for input; ``used`` is how many of these seconds are used. ``clock`` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float], seconds: float = TURN_SECONDS) -> None:
        self.clock = clock
        self.seconds = seconds
        self.used = 0.0
        self._renewing = False
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def each(self, items: Iterable[T], visit: Callable[[T], object]) -> None:
        """Call ``visit`` with each of the items, and let other tasks run whenever the shared loop time is used up. The
        collection of items must not change before the last call.
        """
        async with self.turn() as turn:
            for item in items:
                visit(item)
                if turn.used_up:
                    await turn.next()

    async def each_after(
        self, items_after: Callable[[T], Iterator[T]], first: T, visit: Callable[[T], bool | None]
    ) -> None:
        """Call ``visit`` with each item behind ``first`` in an ordered collection, until ``visit`` returns true. Let
        other tasks run whenever the shared loop time is used up.

        ``items_after`` returns the items behind a given item. It is called again for every 64 items, with the last
        visited item, since the collection may change while other tasks run.
        """
        last = first
        async with self.turn() as turn:
            while batch := list(islice(items_after(last), _BATCH)):
                for last in batch:
                    if visit(last):
                        return
                    if turn.used_up:
                        await turn.next()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Give a long task a turn for the duration of the block. The task must await nothing in the block but
        `Turn.next`, since all time in the block counts as time that the task uses.
        """
        if self._waiting or self.used >= self.seconds:
            await self.wait()
        turn = Turn(self)
        try:
            yield turn
        finally:
            turn.end()

    async def wait(self) -> None:
        """Wait until it is this task's turn, and some of the loop time that all long tasks share is left."""
        number = next(self._numbers)
        while True:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (number, turn))
            self._renew_soon()
            await turn
            if self.used < self.seconds:
                return

    def use(self, seconds: float) -> None:
        """Charge ``seconds`` to the loop time that all long tasks share."""
        if seconds > 0:
            self.used += seconds
            self._renew_soon()

    def _renew_soon(self) -> None:
        if not self._renewing:
            self._renewing = True
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        """Make all of the shared loop time available again, because the loop has polled for input, and wake waiting
        tasks in their order.
        """
        self._renewing = False
        self.used = 0.0
        woken = 0
        while self._waiting and woken < _WOKEN_AT_ONCE:
            _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                woken += 1
        if self._waiting:
            self._renew_soon()

"""Work that takes long goes in slices, with everything else in between.

The event loop runs whatever is ready before it looks for new input. So it is not enough that each of many does a little
and then yields: all of them together would take that much longer each time. What may be used up between two looks is
for all such work together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count, islice
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_SECONDS: Final = 0.002
_BATCH: Final = 64
_WOKEN_AT_ONCE: Final = 8


class Slice:
    """Whose turn it is. It asks `over` between two steps, and waits for its next turn by `next` when that is so."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._began = slices.clock()

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self._slices.used + self._slices.clock() - self._began >= self._slices.seconds

    async def next(self) -> None:
        """Let others go on, and wait for the next turn."""
        self.end()
        await self._slices.wait()
        self._began = self._slices.clock()

    def end(self) -> None:
        """Count what was used."""
        now = self._slices.clock()
        self._slices.use(now - self._began)
        self._began = now


class Slices:
    """Turns, in the order in which they are asked for. ``clock`` gives monotonic seconds, ``used`` is what was used up
    since the loop last looked for input.
    """

    def __init__(self, clock: Callable[[], float], seconds: float = SLICE_SECONDS) -> None:
        self.clock = clock
        self.seconds = seconds
        self.used = 0.0
        self._renewing = False
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def each(self, items: Iterable[T], act: Callable[[T], object]) -> None:
        """Call ``act`` with each of the items, which do not change meanwhile."""
        async with self.turn() as turn:
            for item in items:
                act(item)
                if turn.over:
                    await turn.next()

    async def through(self, behind: Callable[[T], Iterator[T]], first: T, act: Callable[[T], bool | None]) -> None:
        """Call ``act`` with each of what ``behind`` gives from ``first`` on, until it says that it has enough.

        ``behind`` is asked again and again for what comes behind the last one, since what it looks at may change.
        """
        last = first
        async with self.turn() as turn:
            while batch := list(islice(behind(last), _BATCH)):
                for last in batch:
                    if act(last):
                        return
                    if turn.over:
                        await turn.next()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Slice]:
        """Long work. Nothing is waited for in it but `Slice.next`."""
        if self._waiting or self.used >= self.seconds:
            await self.wait()
        turn = Slice(self)
        try:
            yield turn
        finally:
            turn.end()

    async def wait(self) -> None:
        """Until it is one's turn."""
        number = next(self._numbers)
        while True:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (number, turn))
            self._renew_soon()
            await turn
            if self.used < self.seconds:
                return

    def use(self, seconds: float) -> None:
        """So much was used up."""
        if seconds > 0:
            self.used += seconds
            self._renew_soon()

    def _renew_soon(self) -> None:
        if not self._renewing:
            self._renewing = True
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        """The loop has looked for input since. Who waits may go on, the first first."""
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

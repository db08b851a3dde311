"""Work that takes long goes in slices, one slice of all such work at a time, with everything else in between.

The event loop runs whatever is ready before it looks for new input. So it is not enough that each of many does a little
and then yields: all of them together would take that much longer each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_SECONDS: Final = 0.002
_BATCH: Final = 64


class Slice:
    """Whose turn it is. It asks `over` between two steps, and waits for its next turn by `next` when that is so."""

    def __init__(self, turn: asyncio.Lock, clock: Callable[[], float], seconds: float) -> None:
        self._turn = turn
        self._clock = clock
        self._seconds = seconds
        self._began = clock()

    @property
    def over(self) -> bool:
        """Whether the slice has taken its time."""
        return self._clock() - self._began >= self._seconds

    async def next(self) -> None:
        """Let others go on, and wait for the next turn."""
        self._turn.release()
        try:
            await asyncio.sleep(0)
        finally:
            # Also when it is cancelled here: whoever gave the turn takes it back.
            await self._turn.acquire()
        self._began = self._clock()


class Slices:
    """Turns, in the order in which they are asked for. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float], seconds: float = SLICE_SECONDS) -> None:
        self._turn = asyncio.Lock()
        self._clock = clock
        self._seconds = seconds

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
        async with self._turn:
            yield Slice(self._turn, self._clock, self._seconds)

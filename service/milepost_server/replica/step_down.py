"""Give the lead up because somebody asked for it, so that another replica can lead: before maintenance, or to test it.

What is in flight is ended first. Then the wish ends the leadership in the same way in which losing the lease does, so
no step of that has a second form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal import LeadershipLost


class SteppedDown(LeadershipLost):
    """Raised when this process stops leading because it was asked to, although its lease still runs."""


class StepDown:
    """The wish that this replica gives the lead up, from when it is made until the leadership was resigned.

    ``drain`` stops admitting requests and waits for those in flight, not for ever. ``seconds`` is how long the end of
    the leadership is waited for then.
    """

    def __init__(self, drain: Callable[[], Awaitable[None]], seconds: float) -> None:
        self._drain = drain
        self._seconds = seconds
        self._wanted = asyncio.Event()
        self._resigned = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Note that a leadership begins, which nobody has asked to end yet."""
        self._wanted.clear()
        self._resigned.clear()

    async def until_wanted(self) -> None:
        """Wait until the leadership is to end, with nothing in flight any more. Raises `SteppedDown`."""
        await self._wanted.wait()
        raise SteppedDown("somebody asked this replica to step down")

    async def ask(self) -> None:
        """End the leadership, and return once it was resigned; whoever asks meanwhile waits for the same end.

        It goes on also where the caller is gone: a leader that has begun to refuse requests must not stay one. Raises
        ``outcome-unknown`` problems.
        """
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._end(), name="milepost-hand-over")
        await asyncio.shield(self._ending)

    def resigned(self) -> None:
        """Note that the leadership was resigned, for whatever reason: from now on another replica can lead."""
        self._resigned.set()

    async def _end(self) -> None:
        await self._drain()
        self._wanted.set()
        try:
            async with asyncio.timeout(self._seconds):
                await self._resigned.wait()
        except TimeoutError as error:
            detail = f"the election has not confirmed within {self._seconds:g} s that others may lead"
            raise problem(Code.OUTCOME_UNKNOWN, detail) from error

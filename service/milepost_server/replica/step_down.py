"""Step down on request, for example before maintenance of this machine, so that another replica leads.

Requests in flight end first. Then the leadership ends by the same code as when the lease is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal import LeadershipLost


class SteppedDown(LeadershipLost):
    """Raised when this process stops leading because it was asked to step down, although its lease still runs."""


class StepDown:
    """The state of a request to step down, from the request until the leadership is resigned.

    ``drain`` stops admitting requests and waits for requests in flight, for a limited time. ``seconds`` is how long
    `ask` then waits for the end of the leadership.
    """

    def __init__(self, drain: Callable[[], Awaitable[None]], seconds: float) -> None:
        self._drain = drain
        self._seconds = seconds
        self._wanted = asyncio.Event()
        self._resigned = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Note that a new leadership begins, and forget earlier requests to step down."""
        self._wanted.clear()
        self._resigned.clear()

    async def until_wanted(self) -> None:
        """Wait until a client has asked this replica to step down and no request is in flight. Raises `SteppedDown`."""
        await self._wanted.wait()
        raise SteppedDown("an operator asked this replica to step down")

    async def ask(self) -> None:
        """End the leadership, and return once it was resigned.

        Concurrent callers wait for the same end. The leadership ends even if the caller is gone, since a leader that
        has begun to refuse requests must not stay leader. Raises ``outcome-unknown`` problems.
        """
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._end(), name="milepost-hand-over")
        await asyncio.shield(self._ending)

    def resigned(self) -> None:
        """Note that the leadership was resigned, for any reason: from now on another replica can lead."""
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

"""Find the address of the leader, as far as this replica can see."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from backends.contract import BackendError, Election

log = logging.getLogger("milepost.leader_locator")


class LeaderLocator:
    """The advertised URL of the leader, which is read from the election at most every ``fresh`` seconds.

    All requests that ask while it is being read share one answer. Otherwise, on a replica that is cut off from its
    election, each request would wait behind all those before it.
    """

    def __init__(self, election: Election, advertise: str, clock: Callable[[], float], fresh: float = 0.2) -> None:
        self.advertise = advertise
        self._election = election
        self._clock = clock
        self._fresh = fresh
        self._asked = float("-inf")
        self._leader: str | None = None
        self._asking: asyncio.Task[None] | None = None

    async def leader(self) -> str | None:
        """Return the leader's URL, None if there is no leader or the election does not answer."""
        if self._clock() - self._asked >= self._fresh:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            await asyncio.shield(self._asking)
        return self._leader

    async def _ask(self) -> None:
        try:
            self._leader = await self._election.leader()
        except BackendError as error:
            log.warning("cannot ask the election who leads; clients are answered that there is no leader: %s", error)
            self._leader = None
        self._asked = self._clock()

    async def elsewhere(self) -> str | None:
        """Return the leader's URL if it is another replica, else None."""
        leader = await self.leader()
        return leader if leader != self.advertise else None

"""Where the leader is, as far as this replica can see."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from backends.contract import BackendError, Election

log = logging.getLogger("milepost.leader_locator")


class LeaderLocator:
    """The advertised URL of the leader, asked of the election at most every ``fresh`` seconds.

    Who asks meanwhile waits for the same answer: a replica that is cut off from its election would otherwise let each
    request wait behind all those before it.
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
        """The leader's URL, or None when there is none or the election does not answer."""
        if self._clock() - self._asked >= self._fresh:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            await asyncio.shield(self._asking)
        return self._leader

    async def _ask(self) -> None:
        try:
            self._leader = await self._election.leader()
        except BackendError as error:
            log.warning("cannot tell who leads: %s", error)
            self._leader = None
        self._asked = self._clock()

    async def elsewhere(self) -> str | None:
        """The leader's URL if it is another replica."""
        leader = await self.leader()
        return leader if leader != self.advertise else None

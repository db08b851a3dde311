"""Find the address of the leader in the election."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from milepost_backends.contract import BackendError, Election

log = logging.getLogger("milepost.leader_locator")

REMIND_SECONDS = 30.0
"""How many seconds pass before an ongoing outage of the election is logged again."""


class LeaderLocator:
    """The advertised URL of the leader, which is read from the election at most every ``fresh`` seconds.

    Requests that need the URL while it is being read share one read. Otherwise, on a replica that cannot reach the
    election, the reads would queue up, and each request would wait for all earlier ones.
    """

    def __init__(self, election: Election, advertise: str, clock: Callable[[], float], fresh: float = 0.2) -> None:
        self.advertise = advertise
        self._election = election
        self._clock = clock
        self._fresh = fresh
        self._asked = float("-inf")
        self._leader: str | None = None
        self._logged_leader: str | None = None
        self._silent_since: float | None = None
        self._quiet_until = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def leader(self) -> str | None:
        """Return the leader's URL; None if there is no leader, or if the election does not answer."""
        if self._clock() - self._asked >= self._fresh:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            await asyncio.shield(self._asking)
        return self._leader

    async def _ask(self) -> None:
        try:
            leader = await self._election.leader()
        except BackendError as error:
            leader = None
            self._note_silence(error)
        else:
            self._note_answer(leader)
        self._leader = leader
        self._asked = self._clock()

    def _note_silence(self, error: BackendError) -> None:
        now = self._clock()
        if self._silent_since is None:
            self._silent_since, self._quiet_until = now, now
        if now >= self._quiet_until:
            self._quiet_until = now + REMIND_SECONDS
            log.warning("cannot ask the election who leads; clients are answered that there is no leader: %s", error)

    def _note_answer(self, leader: str | None) -> None:
        if self._silent_since is not None:
            log.info("the election answers again, after %.1f s", self._clock() - self._silent_since)
            self._silent_since = None
        if leader is not None and leader != self._logged_leader:
            self._logged_leader = leader
            if leader != self.advertise:
                log.info("%s leads now", leader)

    async def elsewhere(self) -> str | None:
        """Return the leader's URL if another replica leads; None if this replica leads or no leader is known."""
        leader = await self.leader()
        return leader if leader != self.advertise else None

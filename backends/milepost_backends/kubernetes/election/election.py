"""Hold an election on a Lease in Kubernetes: its holder leads, and the others watch whether it is still renewed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final

from milepost_backends.contract import Leadership, StorageUnavailable
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.client import KubernetesClient
from milepost_backends.kubernetes.election.candidate import LeaseCandidate, look
from milepost_backends.kubernetes.election.label import LeaderLabel
from milepost_backends.kubernetes.election.leadership import LeaseLeadership
from milepost_backends.kubernetes.election.observer import LeaseObserver

_FRESH: Final = 0.25
"""What was seen less than this part of a retry period ago still shows who leads."""


def _now() -> datetime:
    return datetime.now(timezone.utc)


class KubernetesElection:
    """An `Election` on the Lease named as ``address``; ``advertise`` is the URL that other replicas are given.

    ``clock`` (monotonic) decides everything; ``wall`` is only written into the Lease, for people.
    """

    def __init__(
        self,
        address: KubernetesAddress,
        advertise: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = _now,
    ) -> None:
        self._address = address
        self._advertise = advertise
        self._clock = clock
        self._wall = wall
        self._looking = KubernetesClient(address, "view of the election", timeout=address.request_seconds)
        self._observer = LeaseObserver(address.name, address.lease_duration, clock)
        self._one_look = asyncio.Lock()
        self._label = LeaderLabel(address, address.pod) if address.pod is not None else None
        self._open = False
        self._standing: LeaseLeadership | None = None

    async def open(self) -> None:
        """See `Election.open`."""
        if self._open:
            return
        await self._looking.open()
        try:
            await self._look()
            if self._label is not None:
                await self._label.open()
        except BaseException:
            await self._let_go()
            raise
        self._open = True

    async def close(self) -> None:
        """See `Election.close`."""
        self._open = False
        standing, self._standing = self._standing, None
        if standing is not None:
            await standing.resign()
        await self._let_go()

    async def campaign(self) -> Leadership:
        """See `Election.campaign`. However it ends, the Lease is released unless this replica leads.

        It also raises `Misconfigured` where the Lease is not Milepost's, or may not be changed.
        """
        if not self._open:
            raise StorageUnavailable("the election is not open")
        candidate = LeaseCandidate(self._address, self._advertise, self._observer, self._clock, self._wall)
        self._standing = leadership = LeaseLeadership(candidate, self._label, self._clock)
        try:
            leadership.begin(await candidate.win())
        except BaseException:
            await leadership.resign()
            raise
        return leadership

    async def leader(self) -> str | None:
        """See `Election.leader`. What was seen within a part of the retry period is not read again."""
        standing = self._standing
        if standing is not None and standing.remaining(self._clock()) > 0:
            return self._advertise
        async with self._one_look:
            if self._observer.age() > _FRESH * self._address.retry_period:
                await self._look()
        return self._observer.leader()

    async def _look(self) -> None:
        await look(self._looking, self._observer, self._clock, self._address.request_seconds)

    async def _let_go(self) -> None:
        await self._looking.close()
        if self._label is not None:
            await self._label.close()

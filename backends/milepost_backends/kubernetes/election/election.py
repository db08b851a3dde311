"""Holds an election on a Lease in Kubernetes.

The holder of the Lease leads. The other candidates take the Lease if its holder does not renew it in time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Final

from milepost_backends.contract import BackendError, Leadership, StorageUnavailable
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.client import KubernetesClient
from milepost_backends.kubernetes.election.candidate import LeaseCandidate, look
from milepost_backends.kubernetes.election.label import LeaderLabel
from milepost_backends.kubernetes.election.lease import LeaseObserver

log = logging.getLogger("milepost.election")
_FRESH: Final = 0.25
"""The part of a retry period for which a Lease that was read still shows who leads, without another read."""

_AGAIN_SECONDS: Final = 0.25


def _now() -> datetime:
    return datetime.now(timezone.utc)


class KubernetesElection:
    """An `Election` on the Lease that the address names. ``advertise`` is the URL of this replica for the others.

    All decisions use ``clock`` (monotonic). The time of the wall clock ``wall`` is only written into the Lease, for
    people.
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
        """Read the Lease, and remove the leader's label from this replica's own Pod; see `Election.open`."""
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
        """Withdraw this candidate, release the Lease if it has it, and close the connections; see `Election.close`."""
        self._open = False
        standing, self._standing = self._standing, None
        if standing is not None:
            await standing.resign()
        await self._let_go()

    async def campaign(self) -> Leadership:
        """Wait until this candidate holds the Lease, and so leads; see `Election.campaign`.

        However the call ends, the Lease is released unless this replica leads. Raises `Misconfigured` as well, if the
        Lease is not Milepost's, or may not be changed.
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
        """Return the URL of the replica that holds the Lease; None if there is no such replica. See `Election.leader`.

        A Lease that was read a moment ago is not read again.
        """
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


class LeaseLeadership:
    """A `Leadership` that lasts as long as its Lease is renewed.

    It is certain for the renew deadline, counted from when the last confirmed renewal was sent. Other candidates wait
    for the lease duration, which is longer, and count from a later moment. If no renewal is confirmed in time, this
    leadership is permanently lost, even if no other candidate has taken the Lease.
    """

    def __init__(self, candidate: LeaseCandidate, label: LeaderLabel | None, clock: Callable[[], float]) -> None:
        self._candidate = candidate
        self._label = label
        self._clock = clock
        self._until = 0.0
        self._begun = False
        self._lost = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._letting_go: asyncio.Task[None] | None = None

    def begin(self, sent: float) -> None:
        """Begin to lead: renew the Lease from now on, which a request sent at ``sent`` (monotonic) has won.

        Raises `StorageUnavailable` if the renew deadline has passed since.
        """
        self._until = sent + self._candidate.address.renew_deadline
        if self._lost.is_set() or self.remaining(self._clock()) <= 0:
            raise StorageUnavailable("leadership was over as soon as it was won")
        self._begun = True
        self._tasks = [asyncio.create_task(self._renew(), name="kubernetes-lease")]
        if self._label is not None:
            self._tasks.append(asyncio.create_task(self._label.keep(self._leads), name="kubernetes-label"))

    def remaining(self, now: float) -> float:
        """Return the seconds from ``now`` until the renew deadline; see `Leadership.remaining`."""
        return self._until - now

    async def wait_lost(self) -> None:
        """Return once the renew deadline has passed, the Lease is lost, or this replica has resigned.

        See `Leadership.wait_lost`.
        """
        while not self._lost.is_set():
            left = self.remaining(self._clock())
            if left <= 0:
                self._end("the Lease was not renewed in time")
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._lost.wait()

    async def resign(self) -> None:
        """Release the Lease, so that another candidate can take it at once; see `Leadership.resign`."""
        overdue = self.remaining(self._clock()) <= 0
        self._end("given up, since the Lease was not renewed in time" if overdue else "given up by this replica")
        if self._letting_go is None:
            self._letting_go = asyncio.create_task(self._let_go(), name="kubernetes-resign")
        await asyncio.shield(self._letting_go)

    async def _let_go(self) -> None:
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                log.error("a bug ended a part of the leadership in Kubernetes", exc_info=ended)
        await self._candidate.release()
        if self._begun and self._label is not None:
            await self._label.remove()

    async def _renew(self) -> None:
        address = self._candidate.address
        pause = address.retry_period
        while True:
            await asyncio.sleep(pause)
            if not self._leads():
                self._end("the Lease was not renewed in time")
                return
            try:
                sent = await self._candidate.renew()
            except BackendError as error:
                log.warning("cannot renew the Lease now, and try again: %s", error)
                pause = min(address.retry_period, _AGAIN_SECONDS)
                continue
            if sent is None:
                self._end("the Lease is gone, or held by another")
                return
            if self._leads():
                self._until = max(self._until, sent + address.renew_deadline)
            pause = max(0.0, sent + address.retry_period - self._clock())

    def _leads(self) -> bool:
        return not self._lost.is_set() and self.remaining(self._clock()) > 0

    def _end(self, why: str) -> None:
        if self._begun and not self._lost.is_set():
            log.info("leadership in Kubernetes is over: %s", why)
        self._until = 0.0
        self._lost.set()

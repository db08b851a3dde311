"""Lead for as long as a Lease is renewed, and stop before anybody else may take it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from milepost_backends.contract import BackendError, StorageUnavailable
from milepost_backends.kubernetes.election.candidate import LeaseCandidate
from milepost_backends.kubernetes.election.label import LeaderLabel

log = logging.getLogger("milepost.election")

_AGAIN_SECONDS: Final = 0.25


class LeaseLeadership:
    """This `Leadership` lasts as long as its Lease is renewed.

    It is certain for the renew deadline, counted from before the last confirmed renewal was sent. Others wait for the
    lease's duration, which is longer, and from a later moment. If no renewal is confirmed in time, leadership is lost
    for good, even if nobody has taken the Lease.
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
        """Begin to lead by a request sent at ``sent``. Raises `StorageUnavailable` if that was too long ago."""
        self._until = sent + self._candidate.address.renew_deadline
        if self._lost.is_set() or self.remaining(self._clock()) <= 0:
            raise StorageUnavailable("leadership was over as soon as it was won")
        self._begun = True
        self._tasks = [asyncio.create_task(self._renew(), name="kubernetes-lease")]
        if self._label is not None:
            self._tasks.append(asyncio.create_task(self._label.keep(self._leads), name="kubernetes-label"))

    def remaining(self, now: float) -> float:
        """See `Leadership.remaining`."""
        return self._until - now

    async def wait_lost(self) -> None:
        """See `Leadership.wait_lost`. It also returns after `resign`."""
        while not self._lost.is_set():
            left = self.remaining(self._clock())
            if left <= 0:
                self._end("the Lease was not renewed in time")
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._lost.wait()

    async def resign(self) -> None:
        """See `Leadership.resign`."""
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

"""An election among the candidates of one process."""

from __future__ import annotations

import asyncio
import math

from milepost_backends.contract import StorageUnavailable


class _Seat:
    """What the candidates of one place share: who leads, and an event that is set when that changes."""

    def __init__(self) -> None:
        self.leader: MemoryLeadership | None = None
        self.changed = asyncio.Event()

    def change(self, leader: MemoryLeadership | None) -> None:
        """Seat a leader, or nobody, and wake all who wait."""
        self.leader = leader
        self.changed.set()
        self.changed = asyncio.Event()


_SEATS: dict[str, _Seat] = {}


class MemoryLeadership:
    """A `Leadership` that lasts until it is resigned."""

    def __init__(self, seat: _Seat, advertise: str) -> None:
        self.advertise = advertise
        self._seat = seat
        self._over = asyncio.Event()

    def remaining(self, now: float) -> float:
        """See `Leadership.remaining`."""
        del now
        return 0.0 if self._over.is_set() else math.inf

    async def wait_lost(self) -> None:
        """See `Leadership.wait_lost`."""
        await self._over.wait()

    async def resign(self) -> None:
        """See `Leadership.resign`."""
        self._over.set()
        if self._seat.leader is self:
            self._seat.change(None)


class MemoryElection:
    """An `Election`; all candidates of one ``name`` stand for the same seat."""

    def __init__(self, name: str, advertise: str) -> None:
        self._advertise = advertise
        self._seat = _SEATS.setdefault(name, _Seat())
        self._open = False
        self._won: MemoryLeadership | None = None

    async def open(self) -> None:
        """See `Election.open`."""
        self._open = True

    async def close(self) -> None:
        """See `Election.close`."""
        self._open = False
        if self._won is not None:
            await self._won.resign()
        self._seat.change(self._seat.leader)

    async def campaign(self) -> MemoryLeadership:
        """See `Election.campaign`."""
        self._require_open()
        while self._seat.leader is not None:
            await self._seat.changed.wait()
            self._require_open()
        self._won = MemoryLeadership(self._seat, self._advertise)
        self._seat.change(self._won)
        return self._won

    async def leader(self) -> str | None:
        """See `Election.leader`."""
        self._require_open()
        return None if self._seat.leader is None else self._seat.leader.advertise

    def _require_open(self) -> None:
        if not self._open:
            raise StorageUnavailable("the election is not open")

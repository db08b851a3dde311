"""The pointer store and the election of the toy backend."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Sequence

from backends.contract import (
    NO_RECORDS,
    Change,
    Commit,
    CommitRefused,
    Done,
    GroupLimits,
    Head,
    Refusal,
    StorageUnavailable,
    TakeOverLost,
)


class MemoryPointers:
    """A `PointerStore` in memory, which is empty each time that it is made."""

    def __init__(self, name: str) -> None:
        self.limits = GroupLimits()
        self.place = f"memory:{name}"
        self.bytes_sent = 0
        self.full: str | None = None
        self._open = False
        self._heads: dict[str, Head] = {}
        self._records: dict[str, dict[str, bytes]] = {}

    async def open(self) -> None:
        """See `PointerStore.open`."""
        self._open = True

    async def close(self) -> None:
        """See `PointerStore.close`."""
        self._open = False

    async def journals(self) -> Sequence[str]:
        """See `PointerStore.journals`."""
        self._require_open()
        return list(self._heads)

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """See `PointerStore.take_over`. No foreign hand can have changed anything, so ``ours`` is what is stored."""
        del ours
        self._require_open()
        before = self._heads.get(journal, Head(journal, 0, 0, "", NO_RECORDS))
        head = Head(journal, before.term + 1, before.revision + 1, secrets.token_hex(8), before.digest)
        self._heads[journal] = head
        self._records.setdefault(journal, {})
        return head

    async def load(self, head: Head) -> AsyncIterator[Change]:
        """See `PointerStore.load`."""
        self._require_open()
        if self._heads.get(head.journal) != head:
            raise TakeOverLost("another head followed")
        for key, value in list(self._records[head.journal].items()):
            yield Change(key, value)

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        """See `PointerStore.commit`. Nothing is waited for, so it is atomic."""
        if not self._open:
            return CommitRefused(Refusal.FAILED, "the store is not open")
        if (excess := self.limits.excess(changes)) is not None:
            return CommitRefused(Refusal.TOO_LARGE, excess)
        if self._heads.get(head.journal) != head:
            return CommitRefused(Refusal.HEAD_MOVED, "the head is another one by now")
        records = self._records[head.journal]
        for key, value in changes:
            self.bytes_sent += len(value or b"")
            if value is None:
                records.pop(key, None)
            else:
                records[key] = value
        moved = Head(head.journal, head.term, revision, head.lineage, head.digest if digest is None else digest)
        self._heads[head.journal] = moved
        return Done(moved)

    async def confirm(self, head: Head) -> bool:
        """See `PointerStore.confirm`."""
        self._require_open()
        stored = self._heads.get(head.journal)
        return stored is not None and (stored.term, stored.lineage) == (head.term, head.lineage)

    def _require_open(self) -> None:
        if not self._open:
            raise StorageUnavailable("the store is not open")


class MemoryLeadership:
    """A `Leadership` that lasts as long as the process, unless it is given up."""

    def __init__(self) -> None:
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


class MemoryElection:
    """An `Election` with one candidate, which wins."""

    def __init__(self, advertise: str) -> None:
        self._advertise = advertise
        self._leadership: MemoryLeadership | None = None

    async def open(self) -> None:
        """See `Election.open`."""

    async def close(self) -> None:
        """See `Election.close`."""
        if self._leadership is not None:
            await self._leadership.resign()

    async def campaign(self) -> MemoryLeadership:
        """See `Election.campaign`."""
        if self._leadership is not None and self._leadership.remaining(0.0) > 0:
            await self._leadership.wait_lost()
        self._leadership = MemoryLeadership()
        return self._leadership

    async def leader(self) -> str | None:
        """See `Election.leader`."""
        leads = self._leadership is not None and self._leadership.remaining(0.0) > 0
        return self._advertise if leads else None

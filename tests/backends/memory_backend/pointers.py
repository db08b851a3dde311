"""Pointers in the memory of one process, which are gone with it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from milepost_backends.contract import (
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


@dataclass
class _Journal:
    head: Head
    records: dict[str, bytes] = field(default_factory=dict)


_PLACES: dict[str, dict[str, _Journal]] = {}
"""What is stored, by the name of the place and the journal. A real store keeps it outside of the process."""


class MemoryPointers:
    """A `PointerStore` in this process; all stores of one ``name`` share what they hold."""

    def __init__(self, name: str) -> None:
        self.limits = GroupLimits()
        self.place = f"memory:{name}"
        self.bytes_sent = 0
        self.commit_delay = 0.0
        self.full: str | None = None
        self._open = False
        self._journals = _PLACES.setdefault(name, {})

    async def open(self) -> None:
        """See `PointerStore.open`."""
        self._open = True

    async def close(self) -> None:
        """See `PointerStore.close`."""
        self._open = False

    async def journals(self) -> Sequence[str]:
        """See `PointerStore.journals`."""
        self._require_open()
        return list(self._journals)

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """See `PointerStore.take_over`. No foreign hand reaches this memory, so ``ours`` is what is stored."""
        del ours
        self._require_open()
        stored = self._journals.setdefault(journal, _Journal(Head(journal, 0, 0, "", NO_RECORDS)))
        old = stored.head
        stored.head = Head(journal, old.term + 1, old.revision + 1, secrets.token_hex(8), old.digest)
        return stored.head

    async def load(self, head: Head) -> AsyncIterator[Change]:
        """See `PointerStore.load`."""
        self._require_open()
        stored = self._journals.get(head.journal)
        if stored is None or stored.head != head:
            raise TakeOverLost(f"another head of {head.journal!r} followed term {head.term}")
        for key, value in list(stored.records.items()):
            yield Change(key, value)

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        """See `PointerStore.commit`. It waits for nothing, so it is atomic and never `Unknown`."""
        if not self._open:
            return CommitRefused(Refusal.FAILED, "the store is not open")
        if (excess := self.limits.excess(changes)) is not None:
            return CommitRefused(Refusal.TOO_LARGE, excess)
        stored = self._journals.get(head.journal)
        if stored is None or stored.head != head:
            return CommitRefused(Refusal.HEAD_MOVED, f"the head of {head.journal!r} is not that of term {head.term}")
        for key, value in changes:
            self.bytes_sent += len(value or b"")
            if value is None:
                stored.records.pop(key, None)
            else:
                stored.records[key] = value
        stored.head = Head(head.journal, head.term, revision, head.lineage, digest or head.digest)
        return Done(stored.head)

    async def confirm(self, head: Head) -> bool:
        """See `PointerStore.confirm`."""
        self._require_open()
        stored = self._journals.get(head.journal)
        return stored is not None and (stored.head.term, stored.head.lineage) == (head.term, head.lineage)

    def _require_open(self) -> None:
        if not self._open:
            raise StorageUnavailable("the pointer store is not open")

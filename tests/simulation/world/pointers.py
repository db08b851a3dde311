"""The simulated coordination store, and each process's way to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Protocol, TypeVar

from msgspec.structs import replace

from milepost_backends.contract import (
    Change,
    Commit,
    CommitRefused,
    Done,
    GroupLimits,
    Head,
    Refusal,
    StorageUnavailable,
    TakeOverLost,
    Unknown,
)
from tests.simulation.world.network import Broken, Line

T = TypeVar("T")

_OWN_REASONS = (Refusal.FULL, Refusal.DENIED, Refusal.FAILED)


class Witness(Protocol):
    """Sees everything that is committed in the coordination store, at the moment when it does."""

    def taken_over(self, by: str, head: Head) -> None:
        """``by`` has taken a journal over; ``head`` is the new head."""

    def committed(self, by: str, head: Head, changes: Sequence[Change], revision: int) -> None:
        """A group of ``by`` that named ``head`` has been committed."""


class CoordinationStore:
    """Journals behind fenced heads, as every real backend has to keep them. Each method is one atomic act."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._heads: dict[str, Head] = {}
        self._records: dict[str, dict[str, bytes]] = {}
        self._lineages = 0

    def names(self) -> list[str]:
        """The journals."""
        return list(self._heads)

    def head(self, journal: str) -> Head:
        """The head as it stands; of an absent journal one of term 0."""
        return self._heads.get(journal) or Head(journal, 0, 0, "")

    def take_over(self, by: str, seen: Head) -> Head | None:
        """Compare-and-set the head from ``seen`` to the next term; None if it is not ``seen`` any more."""
        if self.head(seen.journal) != seen:
            return None
        self._lineages += 1
        head = Head(seen.journal, seen.term + 1, seen.revision + 1, f"{self._lineages:x}", seen.digest)
        self._heads[seen.journal] = head
        self._records.setdefault(seen.journal, {})
        self._witness.taken_over(by, head)
        return head

    def snapshot(self, head: Head) -> list[Change]:
        """All records under ``head``. Raises `TakeOverLost` if the head is another one."""
        if self.head(head.journal) != head:
            raise TakeOverLost(f"{head} is not the head any more")
        return [Change(key, value) for key, value in self._records[head.journal].items()]

    def is_current(self, head: Head) -> bool:
        """The condition of every commit."""
        return self._heads.get(head.journal) == head

    def commit(
        self, by: str, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None
    ) -> Commit:
        """Write a group, if ``head`` is the current one."""
        if not self.is_current(head):
            return CommitRefused(Refusal.HEAD_MOVED, f"the head is {self.head(head.journal)}, not {head}")
        records = self._records[head.journal]
        for key, value in changes:
            if value is None:
                records.pop(key, None)
            else:
                records[key] = value
        self._heads[head.journal] = moved = replace(
            self._heads[head.journal], revision=revision, digest=head.digest if digest is None else digest
        )
        self._witness.committed(by, head, changes, revision)
        return Done(moved)


class SimPointers:
    """A `PointerStore`: the coordination store as one process reaches it."""

    def __init__(self, by: str, store: CoordinationStore, line: Line, random: Random, limits: GroupLimits) -> None:
        self.limits = limits
        self.place = "simulated"
        self.bytes_sent = 0
        self.commit_delay = 0.0
        self._by = by
        self._store = store
        self._line = line
        self._random = random

    @property
    def full(self) -> str | None:
        """See `PointerStore.full`: nothing is kept for removals here."""
        return None

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def journals(self) -> Sequence[str]:
        """See `PointerStore.journals`."""
        return await self._ask(self._store.names)

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """See `PointerStore.take_over`: read the head, then compare-and-set it; own late commits may move it on."""
        assert ours is None or ours.journal == journal, "no foreign hand is at work here"
        seen = await self._ask(lambda: self._store.head(journal))
        while True:
            taken = await self._ask(lambda seen=seen: self._store.take_over(self._by, seen))  # type: ignore[misc]
            if taken is not None:
                return taken
            now = await self._ask(lambda: self._store.head(journal))
            if now.term != seen.term:
                raise TakeOverLost(f"term {now.term} was taken by another")
            seen = now

    async def load(self, head: Head) -> AsyncIterator[Change]:
        """See `PointerStore.load`."""
        for change in await self._ask(lambda: self._store.snapshot(head)):
            yield change

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        """See `PointerStore.commit`."""
        if self._line.fails():
            refused = CommitRefused(self._random.choice(_OWN_REASONS), "the store refuses for a reason of its own")
            return await self._sent(lambda: refused)
        return await self._sent(lambda: self._store.commit(self._by, head, changes, revision, digest))

    async def confirm(self, head: Head) -> bool:
        """See `PointerStore.confirm`."""
        now = await self._ask(lambda: self._store.head(head.journal))
        return (now.term, now.lineage) == (head.term, head.lineage)

    async def _sent(self, commit: Callable[[], Commit]) -> Commit:
        try:
            return await self._line.call(commit)
        except Broken as error:
            return Unknown(str(error))

    async def _ask(self, act: Callable[[], T]) -> T:
        if self._line.fails():
            raise StorageUnavailable("the store does not answer now")
        try:
            return await self._line.call(act)
        except Broken as error:
            raise StorageUnavailable(str(error)) from error

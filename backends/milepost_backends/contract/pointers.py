"""This module defines the contract of a pointer store: journals of small records, each journal behind one fenced head.

A journal is a set of records (key to bytes) under a head ``{term, revision, lineage, digest}``. Every commit is one
atomic write that is conditional on the head, so a leader whose term is over cannot write anything. The core of the
contract is `PointerStore.journals`, `take_over`, `load` and `commit`.

Keys are paths of safe segments (``stores/flights/handles/pointer``); a backend may lay them out as it likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

NO_RECORDS: Final = "0-" + "0" * 32
"""This is the digest of a journal without records."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head is the one object of a journal that every commit is conditional on.

    ``term`` counts leaderships over this journal. ``revision`` is raised by every committed group, and never falls.
    ``lineage`` is drawn at random at each take-over, so that a version made of lineage and revision is never reused,
    not even after the store was restored from a backup. ``digest`` is the number of all records and the sum of their
    hashes, and opaque to the store: it shows whoever loads the records that all are there, and none is an older copy.
    """

    journal: str
    term: int
    revision: int
    lineage: str
    digest: str = NO_RECORDS

    @property
    def check(self) -> str:
        """Return the checksum that is stored with the head: 32 hexadecimal digits.

        A stored head without its own checksum does not count as a head.
        """
        fields = f"{self.journal}\n{self.term}\n{self.revision}\n{self.lineage}\n{self.digest}"
        return hashlib.blake2b(fields.encode(), digest_size=16).hexdigest()


class Change(NamedTuple):
    """A change is one record to write, or to delete when ``value`` is None."""

    key: str
    value: bytes | None


class Refusal(Enum):
    """A refusal says why a commit wrote nothing."""

    HEAD_MOVED = "the head of the journal changed, or something else changed the journal: take it over to find out"
    FULL = "the store is full"
    TOO_LARGE = "the group is larger than the store accepts"
    DENIED = "the store does not permit the write"
    FAILED = "the store failed, certainly before anything was written"


@dataclass(frozen=True, slots=True)
class Done:
    """The group was written; ``head`` is the head after it."""

    head: Head


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """The group was not written, and never will be."""

    reason: Refusal
    detail: str

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """It is not known whether the group was written, or still may be. Only a take-over settles it."""

    detail: str

    def __str__(self) -> str:
        return f"the outcome is unknown: {self.detail}"


Commit = Done | CommitRefused | Unknown


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """These limits say how much one commit may hold, and how many commits may be on their way at once.

    ``journal_bytes`` is how many bytes all records of a journal should hold together, keys and values; None means that
    there is no such limit. A store accepts a little more than that when it is written to in order to make room.
    """

    requests: int = 256
    bytes: int = 4 * 1024 * 1024
    in_flight: int = 1
    value_bytes: int = 512 * 1024
    journal_bytes: int | None = None

    def excess(self, changes: Sequence[Change]) -> str | None:
        """Say in words what in ``changes`` exceeds these limits, or return None. Values are counted, keys are not."""
        total = 0
        for key, value in changes:
            size = len(value or b"")
            if size > self.value_bytes:
                return f"{key!r} has {size} bytes, at most {self.value_bytes} are accepted"
            total += size
        return f"the group has {total} bytes, at most {self.bytes} are accepted" if total > self.bytes else None


class PointerStore(Protocol):
    """A pointer store keeps fenced journals of small records."""

    limits: GroupLimits

    @property
    def place(self) -> str:
        """Return where the journals of this store lie; known once it was opened.

        The text is the same for each replica and each start, and differs from that of any other deployment as far as
        the store can distinguish them.
        """

    @property
    def bytes_sent(self) -> int:
        """Return the number of bytes sent to be written since this object was made, whatever became of them.

        Data that is written again along with a change counts as well: bytes are what etcd, for one, has least of.
        """

    @property
    def full(self) -> str | None:
        """Say in words why no write that grows is accepted now, or return None while there is room. Cheap.

        Room is kept for what frees room: removals, releases, locks and take-overs. A write that is sent all the same is
        refused as `Refusal.FULL`, at the latest once that room is used up.
        """

    @property
    def commit_delay(self) -> float:
        """Return how many seconds a commit would wait before it is sent, because the store is written only so fast.

        Until then its group is better left open: what comes in meanwhile costs a group of its own otherwise. Cheap.
        """

    async def open(self) -> None:
        """Connect to the store, or open its files. Idempotent.

        Raises `Misconfigured`, `JournalDamaged`, `StorageFull`, `StorageUnavailable`.
        """

    async def close(self) -> None:
        """Release every resource. Idempotent. A commit that is still on its way ends as what it is, or as `Unknown`.

        Afterwards a commit is `CommitRefused` and every other call raises `StorageUnavailable`, until `open` is called
        again.
        """

    async def journals(self) -> Sequence[str]:
        """Return the names of the journals that were ever taken over. Raises `StorageUnavailable`."""

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """Compare-and-set the head's term to term + 1 (and its revision to revision + 1), creating an absent journal.

        The new head keeps the digest of the stored one, and gets a lineage of its own. An absent journal counts as one
        of term 0 without records. A journal that was founded once is never founded anew: what is left of it, or the
        witness that each store keeps elsewhere of the last revision, makes this call raise `JournalDamaged`.

        ``ours`` is the head that this process committed last, under a lease that still holds. A stored head that is
        then gone, unreadable or older was changed by someone else: unless the witness shows a later term, it is
        replaced by the successor of ``ours``.

        Once this call returned, no commit under an earlier head can be written any more. A take-over whose own end is
        unknown raises `StorageUnavailable` and may be repeated: each repetition uses up one more term.

        Raises `TakeOverLost`, `StorageUnavailable`, `StorageFull`, `JournalDamaged`.
        """

    def load(self, head: Head) -> AsyncIterator[Change]:
        """Yield every record of the journal, in no particular order; ``value`` is never None.

        Call this right after the `take_over` that returned ``head``, before any commit under it. Raises `TakeOverLost`
        if another head followed it, `StorageUnavailable` if someone else set it back or the store does not answer,
        `JournalDamaged`.
        """

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        """Write all ``changes`` and move the head from ``head`` to ``revision`` in one atomic act, or write nothing.

        ``digest`` is that of all records after these changes; None leaves it as it was.

        A group changes each key at most once; deleting an absent key changes nothing and is no error. ``revision`` is
        greater than ``head.revision``. Several groups may be in flight: the next group names the head that this one
        will leave. The call never raises for an outcome of the store; cancelling it counts as `Unknown`.
        """

    async def confirm(self, head: Head) -> bool:
        """Return whether the stored head still carries this head's term and lineage; the revision may be another.

        A journal that is not there confirms nothing. Raises `StorageUnavailable`.
        """

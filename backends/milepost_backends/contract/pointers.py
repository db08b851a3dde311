"""The contract of a pointer store: journals of small records, each journal behind one fenced head.

A journal is a set of records (key to bytes) under a head ``{term, revision, lineage, digest}``. Every commit is one
atomic write that is conditional on the head, so a leader whose term is over cannot write anything. The core of the
contract is `PointerStore.journals`, `take_over`, `load` and `commit`.

Keys are paths of safe segments (``stores/flights/handles/pointer``); a backend may lay them out as it likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import msgspec

NO_RECORDS: Final = "0-" + "0" * 32
"""The digest of a journal without records."""


class Head(msgspec.Struct, frozen=True, gc=False):
    """The one object of a journal on which every commit is conditional.

    ``term`` counts leaderships over this journal. Every committed group raises ``revision``, which never falls.
    ``lineage`` is drawn at random at each take-over, so that a version made of lineage and revision is never reused,
    not even after the journal was restored from a backup. ``digest`` combines the number of all records with the sum of
    their hashes, and is opaque to the pointer store. With it, a leader that loads the journal verifies that all records
    are present and none is an older copy.
    """

    journal: str
    term: int
    revision: int
    lineage: str
    digest: str = NO_RECORDS

    @property
    def check(self) -> str:
        """Return the checksum of this head, 32 hexadecimal digits, which is stored with it.

        A stored head whose checksum is missing or wrong is not valid.
        """
        return _remembered_check(self)


def check_of(head: Head) -> str:
    """Return the checksum of a head, as `Head.check` does, for a caller that remembers it itself."""
    fields = f"{head.journal}\n{head.term}\n{head.revision}\n{head.lineage}\n{head.digest}"
    return hashlib.blake2b(fields.encode(), digest_size=16).hexdigest()


_remembered_check: Final = lru_cache(maxsize=64)(check_of)
"""It is asked for when the head is written, and again when the next one replaces it."""


class Change(NamedTuple):
    """One record to write, or to delete if ``value`` is None."""

    key: str
    value: bytes | None


class Refusal(Enum):
    """The reasons why a commit was refused, and so wrote nothing."""

    HEAD_MOVED = "the head of the journal changed, or something else changed the journal: take it over to find out"
    FULL = "the store is full"
    TOO_LARGE = "the group is larger than the store accepts"
    DENIED = "the store does not permit the write"
    FAILED = "the store failed, certainly before anything was written"


class Done(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a commit that wrote its group; ``head`` is the head of the journal after the group."""

    head: Head


class CommitRefused(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a commit that did not write its group, and never will."""

    reason: Refusal
    detail: str

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}"


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a commit if it is unknown whether the group was written, or will still be. Only a take-over
    resolves it.
    """

    detail: str

    def __str__(self) -> str:
        return f"the outcome is unknown: {self.detail}"


Commit = Done | CommitRefused | Unknown


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits on the size of one commit, and on the number of commits in flight.

    ``journal_bytes`` is the number of bytes that all records of a journal should hold together, keys and values; None
    means no such limit. Writes that free room, such as removals, may exceed it a little.
    """

    requests: int = 256
    bytes: int = 4 * 1024 * 1024
    in_flight: int = 1
    value_bytes: int = 512 * 1024
    journal_bytes: int | None = None

    def excess(self, changes: Sequence[Change]) -> str | None:
        """Return in words which limit ``changes`` exceeds; None if they exceed none. Only the bytes of values are
        counted.
        """
        total = 0
        for key, value in changes:
            size = len(value or b"")
            if size > self.value_bytes:
                return f"{key!r} has {size} bytes, at most {self.value_bytes} are accepted"
            total += size
        return f"the group has {total} bytes, at most {self.bytes} are accepted" if total > self.bytes else None


class PointerStore(Protocol):
    """Stores fenced journals of small records."""

    limits: GroupLimits

    @property
    def place(self) -> str:
        """Return the location of the journals of this pointer store; known once it was opened.

        The text is the same for each replica and after each start. It differs from that of any other deployment, as far
        as the pointer store can distinguish them.
        """

    @property
    def bytes_sent(self) -> int:
        """Return the number of bytes that this pointer store has sent in writes since it was made, whatever their
        outcome.

        Unchanged data that a write sends along with a change counts as well, because etcd limits all bytes that are
        written.
        """

    @property
    def full(self) -> str | None:
        """Return in words why this pointer store now refuses writes that add data; None while there is room. Cheap.

        The pointer store reserves room for writes that free room: removals, releases, locks and take-overs. If a caller
        sends a write that adds data anyway, it is refused as `Refusal.FULL`, at the latest once the reserved room is
        used up.
        """

    @property
    def commit_delay(self) -> float:
        """Return the seconds that a commit would wait now, because the pointer store limits the rate of writes. Cheap.

        During this time the caller should add requests to the waiting group, instead of making another group of them.
        """

    async def open(self) -> None:
        """Connect to the storage of the journals, or open its files. Idempotent.

        Raises `Misconfigured`, `JournalDamaged`, `StorageFull`, `StorageUnavailable`.
        """

    async def close(self) -> None:
        """Release every resource. Idempotent. A commit in flight ends with its real outcome, or as `Unknown`.

        Afterwards a commit is `CommitRefused` and every other call raises `StorageUnavailable`, until `open` is called
        again.
        """

    async def journals(self) -> Sequence[str]:
        """Return the names of the journals that were ever taken over. Raises `StorageUnavailable`."""

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """Take a journal over: raise the term and the revision of its head by 1 each, by compare-and-set; return the
        new head.

        The new head keeps the digest of the stored head, and gets a new lineage. An absent journal is created, as if it
        had a head of term 0 and no records. A journal that was ever created is not created anew: if its remains are
        found, or the witness, a second copy of its last head, this call raises `JournalDamaged`.

        ``ours`` is the head that this process committed last, under a lease that still holds. If the stored head is
        then gone, unreadable or older, another program changed it. In that case a successor of ``ours`` replaces the
        stored head, unless the witness shows a later term.

        Once this call has returned, no commit under an earlier head can be written any more. A take-over with an
        unknown outcome raises `StorageUnavailable` and may be repeated: each repetition uses up one more term.

        Raises `TakeOverLost`, `StorageUnavailable`, `StorageFull`, `JournalDamaged`.
        """

    def load(self, head: Head) -> AsyncIterator[Change]:
        """Yield every record of the journal of ``head``, in no particular order. The ``value`` of each is never None.

        Call this right after the `take_over` that returned ``head``, before any commit under that head. Raises
        `TakeOverLost` if another head followed ``head``; `StorageUnavailable` if another program set the head back, or
        the storage does not answer; and `JournalDamaged` if stored data fails its verification.
        """

    def commit(
        self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None
    ) -> Awaitable[Commit]:
        """Write all ``changes`` and move the head from ``head`` to ``revision`` in one atomic write, or write nothing.

        ``revision`` is greater than ``head.revision``. ``digest`` is that of all records after these changes; None
        leaves the digest of the head unchanged. A group changes each key at most once. Deleting an absent key changes
        nothing and is no error. Several groups may be in flight: the ``head`` of the next group is the one that this
        group will leave.

        The result says what became of the write; this call does not raise for it. A cancelled call counts as `Unknown`.
        """

    async def confirm(self, head: Head) -> bool:
        """Return whether the leadership of ``head`` is still the last one: whether the stored head has its term and
        lineage.

        The revision of the stored head may differ. The result is False if the journal does not exist. Raises
        `StorageUnavailable`.
        """

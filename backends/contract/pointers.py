"""Pointer stores: journals of small records, each journal behind one fenced head.

A journal is a set of records (key to bytes) under a head ``{term, revision, lineage}``. Every commit is one atomic
write that is conditional on the head, so a leader whose term is over cannot land anything. The whole contract is
`journals`, `take_over`, `load` and `commit`.

Keys are paths of safe segments (``stores/flights/handles/pointer``); a backend may lay them out as it likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

NO_RECORDS: Final = "0-" + "0" * 32
"""The digest of a journal without records."""


@dataclass(frozen=True, slots=True)
class Head:
    """The one object of a journal that every commit is conditional on.

    ``term`` counts leaderships over this journal; ``revision`` counts committed groups' changes and only rises;
    ``lineage`` is drawn at random at each take-over, so that a version made of lineage and revision is never reused,
    not even after the store was restored from a backup. ``digest`` is the number of all records and the
    sum of their hashes, opaque to the store: it tells whoever loads them that all are there, and none is an older one.
    """

    journal: str
    term: int
    revision: int
    lineage: str
    digest: str = NO_RECORDS

    @property
    def check(self) -> str:
        """The checksum that is stored along with a head, 32 hexadecimal digits. A head without its own is no head."""
        fields = f"{self.journal}\n{self.term}\n{self.revision}\n{self.lineage}\n{self.digest}"
        return hashlib.blake2b(fields.encode(), digest_size=16).hexdigest()


class Change(NamedTuple):
    """One record to write, or to delete when ``value`` is None."""

    key: str
    value: bytes | None


class Refusal(Enum):
    """Why a commit was refused."""

    HEAD_MOVED = "the head moved, or a foreign hand was at the journal: a take-over tells"
    FULL = "the store is full"
    TOO_LARGE = "the group is larger than the store takes"
    DENIED = "the store does not permit it"
    FAILED = "the store failed for certain before anything was written"


@dataclass(frozen=True, slots=True)
class Done:
    """The group landed; ``head`` is the head after it."""

    head: Head


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """The group did not land and never will."""

    reason: Refusal
    detail: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Whether the group landed, or may still land, is not known. Only a take-over settles it."""

    detail: str


Commit = Done | CommitRefused | Unknown


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """How much one commit may hold, and how many commits may be on their way at once.

    ``journal_bytes``: how much all records of a journal should hold together, keys and values; None: no matter. A store
    takes a little more than that from who goes on in order to make room.
    """

    requests: int = 256
    bytes: int = 4 * 1024 * 1024
    in_flight: int = 1
    value_bytes: int = 512 * 1024
    journal_bytes: int | None = None

    def excess(self, changes: Sequence[Change]) -> str | None:
        """What in ``changes`` is larger than the store takes, in words, or None. Counted are values, not keys."""
        total = 0
        for key, value in changes:
            size = len(value or b"")
            if size > self.value_bytes:
                return f"{key!r} has {size} bytes, at most {self.value_bytes} are taken"
            total += size
        return f"the group has {total} bytes, at most {self.bytes} are taken" if total > self.bytes else None


class PointerStore(Protocol):
    """Fenced journals of small records."""

    limits: GroupLimits

    @property
    def place(self) -> str:
        """Where its journals lie, once it was opened: the same for each replica and each start, and for no other
        deployment that these can be told apart from.
        """

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to be written since this object was made, whatever became of them.

        What is written again along with a change counts as well; bytes are what etcd, for one, has least of.
        """

    @property
    def full(self) -> str | None:
        """Why nothing may be written now that grows, in words; None while there is room. Cheap.

        What is sent all the same is refused as `Refusal.FULL` at the latest when room is gone that is kept for what
        frees room: removals, releases, locks and take-overs.
        """

    async def open(self) -> None:
        """Connect or open. Idempotent.

        Raises `Misconfigured`, `JournalDamaged`, `StorageFull`, `StorageUnavailable`.
        """

    async def close(self) -> None:
        """Let go of every resource. Idempotent; a commit that is still on its way ends truthfully or as `Unknown`.

        Afterwards a commit is `CommitRefused` and all else raises `StorageUnavailable`, until `open` is called again.
        """

    async def journals(self) -> Sequence[str]:
        """The names of the journals that were ever taken over. Raises `StorageUnavailable`."""

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """Compare-and-set the head's term to term + 1 (and its revision to revision + 1), creating an absent journal.

        The new head keeps the digest of the stored one. A journal that was once founded is never made anew: what is
        left of it, or the witness that each store keeps elsewhere of the last revision, raises `JournalDamaged`.

        ``ours`` is the head that this process committed last, under a lease that still holds. Then a stored head that
        is gone, unreadable or older is the work of a foreign hand: where the witness shows no later term, it is
        replaced by the successor of ``ours``.

        After it returned, no commit under an earlier head can land any more. A take-over whose own end is unknown
        raises `StorageUnavailable` and may be repeated: each repetition burns one more term.

        Raises `TakeOverLost`, `StorageUnavailable`, `StorageFull`, `JournalDamaged`.
        """

    def load(self, head: Head) -> AsyncIterator[Change]:
        """Every record of the journal, in no particular order; ``value`` is never None.

        Called right after the `take_over` that returned ``head``, before any commit under it. Raises `TakeOverLost` if
        another head followed it, `StorageUnavailable` if a foreign hand took it back or the store does not answer,
        `JournalDamaged`.
        """

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        """Write all ``changes`` and move the head from ``head`` to ``revision`` in one atomic act, or write nothing.

        ``digest`` is that of all records after these changes; None: as it was before.

        Each key is changed at most once in a group; to delete what is absent changes nothing and is no error.
        ``revision`` is greater than ``head.revision``. Groups in flight are pipelined: the next group names the head
        that this one will leave. Never raises for an outcome of the store; cancellation counts as `Unknown`.
        """

    async def confirm(self, head: Head) -> bool:
        """Whether the stored head still carries this head's term. Raises `StorageUnavailable`."""

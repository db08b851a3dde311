"""Decides which head a take-over continues from, by the stored parts of a journal and its witness.

The witness is a copy of the head in another place, written in the same transaction. So the head and the witness each
show whether the other is an older copy, was altered, or is gone. A copy whose checksum does not match is ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from milepost_backends.contract import NO_RECORDS, Head, JournalDamaged, TakeOverLost

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Stored:
    """A znode that should contain a head. ``head`` is None if the content is not valid, or cannot be read."""

    path: str
    data: bytes
    version: int
    head: Head | None
    readable: bool = True


@dataclass(frozen=True, slots=True)
class StoredJournal:
    """The stored parts of a journal in ZooKeeper: its znode, that of its records, its heads, its witness.

    The witness must be read before the heads. If it were read after them, a group committed in between would make the
    heads look older than the witness.
    """

    journal: str
    place: str
    there: bool
    records: bool
    heads: tuple[Stored, ...]
    witness: Stored | None

    @property
    def stored(self) -> tuple[Stored, ...]:
        """Return the stored heads of the journal, and its witness if that exists."""
        return self.heads if self.witness is None else (*self.heads, self.witness)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the process that leads a journal remembers of it.

    It has the head that the process committed last; the lineages of its own take-overs since, any of which may be
    committed late; and the digests after its last groups, which may be committed or not.
    """

    head: Head
    lineages: Collection[str] = ()
    digests: Collection[str] = ()

    def took(self, head: Head) -> bool:
        """Return whether ``head`` is of a take-over by this process, or of an earlier one."""
        return head.term <= self.head.term or head.lineage in self.lineages

    def knows(self, head: Head) -> bool:
        """Return whether this process knows all records under ``head``: no other process has written a group there.

        A take-over by another process alone leaves the records, and so the digest, unchanged.
        """
        return self.took(head) or head.digest == self.head.digest or head.digest in self.digests


@dataclass(frozen=True, slots=True)
class Succession:
    """The head that a take-over continues from, and lines for the log.

    The head has term 0 if the journal never existed.
    """

    last: Head
    log_lines: tuple[str, ...] = ()


def succession(
    found: StoredJournal, witness_path: str, *, ours: Remembered | None, known: bool, accepted: Collection[str]
) -> Succession:
    """Return the head that a take-over continues from, given what was ``found``.

    ``witness_path`` is for log lines. ``ours`` is this process's memory, if its lease holds. ``known`` says that the
    journal has existed before. ``accepted`` has the values of ``--accept-loss``. Raises `JournalDamaged` if no leader
    may continue, and `TakeOverLost` if another leader has written under a later term.
    """
    witness = found.witness.head if found.witness is not None else None
    nothing = not found.there and found.witness is None
    if nothing and ours is None and not known:
        return Succession(Head(found.journal, 0, 0, "", NO_RECORDS))
    head, strays = _witnessed(found, witness)
    damage = _damage(found, head, witness)
    if damage is None and head is not None:
        if ours is None or not _contradicts(ours.head, head):
            if ours is not None and not ours.knows(head):
                raise TakeOverLost(f"another leader took {found.journal!r} over and wrote: {_named(head)}")
            return Succession(head, (*_of_witness(found.witness, head, witness_path), *strays))
        damage = f"the head of {found.place} is an older copy: {_named(head)}, but {_named(ours.head)} was committed"
    remembered = None if ours is None else ours.head
    proven = [head for head in (remembered, witness, *(stored.head for stored in found.heads)) if head is not None]
    last = max(proven, key=_number, default=None)
    if ours is not None and last is not None and ours.took(last):
        return Succession(last, (f"{damage}; this replica leads, and writes it anew from memory",))
    if last is None and not found.there:
        last = Head(found.journal, 0, 0, "", NO_RECORDS)
    error = JournalDamaged(
        f"{damage}. Restore what is stored in ZooKeeper, from a backup if need be",
        None if last is None else _evidence(found),
    )
    if last is None or error.loss not in accepted:
        raise error
    if not (found.there and found.records):
        last = replace(last, digest=NO_RECORDS)
    return Succession(last, (f"{damage}; accepted as the loss {error.loss}, it goes on after {_named(last)}",))


def _witnessed(found: StoredJournal, witness: Head | None) -> tuple[Head | None, tuple[str, ...]]:
    """Return the only stored head, or of several the one that equals the witness; None if there is none.

    The second result has a log line for each other head, which the take-over deletes.
    """
    if len(found.heads) == 1:
        return found.heads[0].head, ()
    if witness is None or witness not in [stored.head for stored in found.heads]:
        return None, ()
    strays = [stored for stored in found.heads if stored.head != witness]
    return witness, tuple(
        f"{stored.path} was made by another program, and is deleted: {stored.data[:300]!r}" for stored in strays
    )


def _damage(found: StoredJournal, head: Head | None, witness: Head | None) -> str | None:
    """Return in words how the journal is damaged; None if ``head`` is valid and the witness does not contradict it."""
    if not found.there:
        return f"{found.place} was deleted"
    if not found.records:
        return f"the records of {found.place} were deleted"
    if not found.heads:
        return f"the head of {found.place} was deleted"
    if head is None and len(found.heads) == 1:
        return f"{found.heads[0].path} does not hold a valid head: {found.heads[0].data[:300]!r}"
    if head is None:
        names = sorted(stored.path.rpartition("/")[2] for stored in found.heads)
        return f"{found.place} has {len(names)} heads, and its witness knows none of them: {names[:_SHOWN]}"
    if witness is not None and _contradicts(witness, head):
        path = found.witness.path if found.witness is not None else ""
        return f"{found.heads[0].path} is an older copy: {_named(head)}, but {path} holds {_named(witness)}"
    return None


def _of_witness(witness: Stored | None, head: Head, path: str) -> tuple[str, ...]:
    """Return the log line for a witness that the take-over must repair; empty if the witness is in order."""
    if witness is None:
        return (f"{path}, the witness of journal {head.journal!r}, was deleted; it is written anew",)
    if witness.head is None:
        return (f"{path} does not hold a valid witness; it is written anew: {witness.data[:300]!r}",)
    if witness.head != head:
        return (f"{path} is an older copy, {_named(witness.head)}; it is written anew",)
    return ()


def _contradicts(other: Head, head: Head) -> bool:
    """Return whether ``other``, a stored head or the witness, shows that ``head`` is wrong.

    It does if ``other`` has a later term or revision, or has the same ones and differs otherwise.
    """
    return _number(other) > _number(head) or (_number(other) == _number(head) and other != head)


def _number(head: Head) -> tuple[int, int]:
    return head.term, head.revision


def _named(head: Head) -> str:
    return f"term {head.term}, revision {head.revision}"


def _evidence(found: StoredJournal) -> str:
    """Return the evidence of the damage in ``found`` (see `JournalDamaged`). It stays the same until a take-over."""
    parts = sorted(f"{each.path} {hashlib.blake2b(each.data, digest_size=16).hexdigest()}" for each in found.stored)
    return f"{found.place} {found.there} {found.records} {parts}"

"""Reads, checks and writes the heads of journals in the SQLite database.

It also chooses the head that a take-over continues from: the stored head, if the witness (a second copy of the last
head) confirms it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from msgspec.structs import replace

from milepost_backends.contract import Head, JournalDamaged, check_of
from milepost_backends.embedded.witness import DAMAGED, Testimony

log = logging.getLogger("milepost.embedded")

_WHAT_TO_DO = "Restore all files of the directory; after restoring a backup, start with --epochs-above"

_HEAD = 'SELECT term, revision, lineage, digest, "check" FROM head WHERE journal = ?'
_MOVE_HEAD = (
    'INSERT INTO head (journal, term, revision, lineage, digest, "check") VALUES (?, ?, ?, ?, ?, ?)'
    " ON CONFLICT (journal) DO UPDATE SET term = excluded.term, revision = excluded.revision,"
    ' lineage = excluded.lineage, digest = excluded.digest, "check" = excluded."check"'
)
_MOVE_HEAD_FROM = (
    'UPDATE head SET term = ?, revision = ?, lineage = ?, digest = ?, "check" = ?'
    ' WHERE journal = ? AND term = ? AND revision = ? AND lineage = ? AND digest = ? AND "check" = ?'
)


class InvalidHead(JournalDamaged):
    """The stored value of a head is not a valid head.

    ``sign`` describes the invalid value within the evidence of a loss (see `JournalDamaged`), from which the name of
    the loss is computed. An owner may accept a loss in a later release than the one that named it, so the text of
    ``sign`` must stay the same in all releases.
    """

    def __init__(self, journal: str, row: tuple[object, ...]) -> None:
        self.sign = f"the head of {journal!r} is not a head: {row!r}"
        super().__init__(f"the stored head of journal {journal!r} is not valid: {row!r}")


def stored_head(connection: sqlite3.Connection, journal: str) -> Head | None:
    """Return the stored head, or None for an absent journal. Raises `InvalidHead` if its checksum does not match."""
    row = connection.execute(_HEAD, (journal,)).fetchone()
    if row is None:
        return None
    match row:
        case (int(term), int(revision), str(lineage), str(digest), str(check)):
            head = Head(journal, term, revision, lineage, digest)
            if head.check == check:
                return head
        case _:
            pass
    raise InvalidHead(journal, row)


def move_head(connection: sqlite3.Connection, head: Head) -> None:
    """Store ``head`` in place of the previous head of its journal."""
    row = (head.journal, head.term, head.revision, head.lineage, head.digest, head.check)
    connection.execute(_MOVE_HEAD, row)


class Moves:
    """Moves the heads of journals, and remembers the checksum of the last head, from which the next move begins."""

    def __init__(self) -> None:
        self._last: Head | None = None
        self._check = ""

    def move(self, cursor: sqlite3.Cursor, expected: Head, head: Head) -> bool:
        """Store ``head`` if the stored head is ``expected``; return whether it was. The rest of the transaction may
        then change records, and is rolled back otherwise.
        """
        check, expected_check = check_of(head), self._check if expected == self._last else check_of(expected)
        cursor.execute(
            _MOVE_HEAD_FROM,
            (
                head.term,
                head.revision,
                head.lineage,
                head.digest,
                check,
                expected.journal,
                expected.term,
                expected.revision,
                expected.lineage,
                expected.digest,
                expected_check,
            ),
        )
        self._last, self._check = head, check
        return cursor.rowcount == 1


def has_records(connection: sqlite3.Connection, journal: str) -> bool:
    """Return whether any record of ``journal`` is stored."""
    query = "SELECT 1 FROM record WHERE journal = ? LIMIT 1"
    return connection.execute(query, (journal,)).fetchone() is not None


def _described(head: Head | None) -> str:
    """Return term, revision and lineage of a head in words, for error messages and for the evidence of damage."""
    return "no head" if head is None else f"{head.term}/{head.revision}/{head.lineage}"


def moved(expected: Head, stored: Head | None) -> str:
    """Return an error message which says that the stored head is not the ``expected`` one."""
    if stored is None:
        return f"there is no journal {expected.journal!r}"
    return (
        f"the head of {expected.journal!r} is {_described(stored)}, not {_described(expected)} (term/revision/lineage)"
    )


@dataclass(frozen=True, slots=True)
class StoredHead:
    """The stored head of a journal, or what is wrong with it; and whether any record of the journal is stored.

    If the head is not valid, ``trouble`` says so in a message for people, and ``sign`` in the evidence of a loss (see
    `InvalidHead`). Both are None if the head is valid.
    """

    head: Head | None
    trouble: str | None
    sign: str | None
    records: bool


def last_head(
    journal: str, found: StoredHead, witness: Testimony, ours: Head | None, accepted: Collection[str]
) -> Head | None:
    """Return the head that a take-over continues from; None for a new journal.

    ``found`` is what the database has, and ``witness`` what the witness file has, the second copy of the last head.
    ``ours`` is the head that this process committed last, under a lease that still holds. ``accepted`` has the values
    of ``--accept-loss``. Raises `JournalDamaged` for damage that is not accepted.
    """
    if ours is not None and may_follow(ours, witness):
        return _ours_or_newer(found, ours)
    what = _damage(journal, found, witness)
    if what is None:
        if found.head is not None and witness.trouble is not None:
            log.error("the witness of journal %r %s: it is written anew from the database", journal, witness.trouble)
        return found.head
    evidence = f"{journal} {found.sign} {_described(found.head)} {_described(witness.head)} {found.records}"
    error = JournalDamaged(f"{what}. {_WHAT_TO_DO}", evidence)
    if error.loss not in accepted:
        raise error
    log.error("%s: accepted as the loss %s, so the take-over goes on", what, error.loss)
    base = found.head or witness.head or Head(journal, 0, 0, "")
    newest = witness.head or base
    return replace(base, term=max(base.term, newest.term), revision=max(base.revision, newest.revision))


def may_follow(ours: Head, witness: Testimony) -> bool:
    """Return whether a process that committed ``ours`` last, and whose lease still holds, may continue from ``ours``.

    It may not if the witness has a later term, since another process has then taken the journal over.
    """
    return witness.head is None or witness.head.term <= ours.term


def _damage(journal: str, found: StoredHead, witness: Testimony) -> str | None:
    """Return in words how the stored journal is damaged; None if it is not.

    A database that is newer than its witness is not damaged, since the witness is not synced at each commit.
    """
    head, newest = found.head, witness.head
    if found.trouble is not None:
        return found.trouble
    if head is None:
        if newest is not None:
            return f"journal {journal!r} is gone, though {_named(newest)} was committed"
        if witness.trouble == DAMAGED:
            return f"journal {journal!r} is gone, and the witness, which shows that a journal existed, is damaged"
        return f"the head of journal {journal!r} is gone, but its records are there" if found.records else None
    if newest is None:
        return None
    if (head.term, head.revision) < (newest.term, newest.revision):
        return (
            f"the database is older than its witness: of journal {journal!r} it has {_named(head)}, but"
            f" {_named(newest)} was committed, so revisions {head.revision + 1} to {newest.revision} are lost"
        )
    same_place = (head.term, head.revision) == (newest.term, newest.revision)
    if (head.term == newest.term and head.lineage != newest.lineage) or (same_place and head.digest != newest.digest):
        return (
            f"the database is not the one that its witness knows: the last head of journal {journal!r} is"
            f" {_described(head)}, not {_described(newest)} (term/revision/lineage)"
        )
    return None


def _ours_or_newer(found: StoredHead, ours: Head) -> Head:
    stored = found.head
    if stored is not None and (stored.term, stored.revision) >= (ours.term, ours.revision):
        return stored
    log.error(
        "the stored head of journal %r is %s, but this replica committed %s last: it is written anew from memory",
        ours.journal,
        found.trouble or _described(stored),
        _described(ours),
    )
    return ours


def _named(head: Head) -> str:
    return f"revision {head.revision} of term {head.term}"

"""Heads in the database: read, proved, and moved."""

from __future__ import annotations

import sqlite3

from backends.contract import Head, JournalDamaged

_HEAD = 'SELECT term, revision, lineage, digest, "check" FROM head WHERE journal = ?'
_MOVE_HEAD = (
    'INSERT INTO head (journal, term, revision, lineage, digest, "check") VALUES (?, ?, ?, ?, ?, ?)'
    " ON CONFLICT (journal) DO UPDATE SET term = excluded.term, revision = excluded.revision,"
    ' lineage = excluded.lineage, digest = excluded.digest, "check" = excluded."check"'
)


def stored_head(connection: sqlite3.Connection, journal: str) -> Head | None:
    """The stored head, or None for an absent journal. Raises `JournalDamaged` for one that does not prove itself."""
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
    raise JournalDamaged(f"the head of {journal!r} is not a head: {row!r}")


def move_head(connection: sqlite3.Connection, head: Head) -> None:
    """Let this be the stored head."""
    row = (head.journal, head.term, head.revision, head.lineage, head.digest, head.check)
    connection.execute(_MOVE_HEAD, row)


def has_records(connection: sqlite3.Connection, journal: str) -> bool:
    """Whether any record of ``journal`` is there."""
    query = "SELECT 1 FROM record WHERE journal = ? LIMIT 1"
    return connection.execute(query, (journal,)).fetchone() is not None


def described(head: Head | None) -> str:
    """For people: term, revision and lineage."""
    return "no head" if head is None else f"{head.term}/{head.revision}/{head.lineage}"


def moved(expected: Head, stored: Head | None) -> str:
    """That the head is not the expected one, in words."""
    if stored is None:
        return f"there is no journal {expected.journal!r}"
    return f"the head of {expected.journal!r} is {described(stored)}, not {described(expected)} (term/revision/lineage)"

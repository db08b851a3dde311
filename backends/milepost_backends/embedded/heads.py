"""Read, check and write the heads of journals in the SQLite database."""

from __future__ import annotations

import sqlite3

from milepost_backends.contract import Head, JournalDamaged

_HEAD = 'SELECT term, revision, lineage, digest, "check" FROM head WHERE journal = ?'
_MOVE_HEAD = (
    'INSERT INTO head (journal, term, revision, lineage, digest, "check") VALUES (?, ?, ?, ?, ?, ?)'
    " ON CONFLICT (journal) DO UPDATE SET term = excluded.term, revision = excluded.revision,"
    ' lineage = excluded.lineage, digest = excluded.digest, "check" = excluded."check"'
)


class InvalidHead(JournalDamaged):
    """What is stored where a head belongs is none.

    ``sign`` is the part of a loss's evidence that stands for it. Names of losses are made of it, and an owner may
    accept one in another release than the one that gave it the name: so it never changes, whatever messages say.
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
    """Store this head in place of the one before it."""
    row = (head.journal, head.term, head.revision, head.lineage, head.digest, head.check)
    connection.execute(_MOVE_HEAD, row)


def has_records(connection: sqlite3.Connection, journal: str) -> bool:
    """Return whether any record of ``journal`` is stored."""
    query = "SELECT 1 FROM record WHERE journal = ? LIMIT 1"
    return connection.execute(query, (journal,)).fetchone() is not None


def described(head: Head | None) -> str:
    """Return term, revision and lineage of a head for a message to people."""
    return "no head" if head is None else f"{head.term}/{head.revision}/{head.lineage}"


def moved(expected: Head, stored: Head | None) -> str:
    """Say in words that the stored head is not the expected one."""
    if stored is None:
        return f"there is no journal {expected.journal!r}"
    return f"the head of {expected.journal!r} is {described(stored)}, not {described(expected)} (term/revision/lineage)"

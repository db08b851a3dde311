"""Journals in one SQLite file, seen from the one thread that works on it. Nothing here awaits."""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from backends.contract import (
    BackendError,
    Change,
    Commit,
    Done,
    GroupLimits,
    Head,
    JournalDamaged,
    Refusal,
    Refused,
    StorageUnavailable,
    TakeOverLost,
)
from backends.local_filesystem import FileIdentity
from backends.pointers.sqlite_errors import backend_error, commit_end
from backends.pointers.sqlite_file import connect, prepare_directory

log = logging.getLogger("milepost.embedded")

_BATCH_ROWS = 1000
_BATCH_BYTES = 1024 * 1024
_UPSERT = (
    "INSERT INTO record (journal, key, value) VALUES (?, ?, ?)"
    " ON CONFLICT (journal, key) DO UPDATE SET value = excluded.value"
)
_HEAD = 'SELECT term, revision, lineage, digest, "check" FROM head WHERE journal = ?'
_DELETE = "DELETE FROM record WHERE journal = ? AND key = ?"
_MOVE_HEAD = (
    'INSERT INTO head (journal, term, revision, lineage, digest, "check") VALUES (?, ?, ?, ?, ?, ?)'
    " ON CONFLICT (journal) DO UPDATE SET term = excluded.term, revision = excluded.revision,"
    ' lineage = excluded.lineage, digest = excluded.digest, "check" = excluded."check"'
)
# In the order of the rows, not of the keys (hence the +, which keeps the index out): one pass over the file. The casts
# let a damaged row, of whatever type or encoding, through to those who can tell what it should have been.
_BATCH = "SELECT id, CAST(key AS BLOB), CAST(value AS BLOB) FROM record WHERE id > ? AND +journal = ? ORDER BY id"


class Batch(NamedTuple):
    """Some records, and where the next batch begins (None: there is none)."""

    records: list[Change]
    next: int | None


class SqliteJournals:
    """Every call runs one whole transaction, or none: between calls the connection holds no lock and no snapshot."""

    def __init__(self, path: Path, busy_timeout: float, limits: GroupLimits) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._limits = limits
        self._connection: sqlite3.Connection | None = None
        self._identity: FileIdentity | None = None

    def open(self) -> None:
        if self._connection is None:
            prepare_directory(self._path)
            self._connection = connect(self._path, self._busy_timeout, create=True)
            self._identity = _identity_at(self._path)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def journals(self) -> list[str]:
        with self._transaction("BEGIN", "cannot list the journals") as connection:
            return [str(name) for (name,) in connection.execute("SELECT journal FROM head ORDER BY journal")]

    def take_over(self, journal: str, ours: Head | None = None) -> Head:
        lineage = secrets.token_hex(6)
        with self._transaction("BEGIN IMMEDIATE", f"cannot take over {journal!r}") as connection:
            last = _last_head(connection, journal, ours) or Head(journal, 0, 0, lineage)
            head = Head(journal, last.term + 1, last.revision + 1, lineage, last.digest)
            _move_head(connection, head)
            connection.execute("COMMIT")
        return head

    def confirm(self, head: Head) -> bool:
        with self._transaction("BEGIN", f"cannot read the head of {head.journal!r}") as connection:
            stored = _stored_head(connection, head.journal)
        return stored is not None and (stored.term, stored.lineage) == (head.term, head.lineage)

    def batch(self, head: Head, begin: int) -> Batch:
        """Records after row ``begin``. While the head stays the same so do they: the batches make up one snapshot."""
        with self._transaction("BEGIN", f"cannot load {head.journal!r}") as connection:
            stored = _stored_head(connection, head.journal)
            if stored != head:
                raise TakeOverLost(_moved(head, stored))
            records: list[Change] = []
            size = 0
            for row, key, value in connection.execute(_BATCH, (begin, head.journal)):
                records.append(Change(key.decode("utf-8", "backslashreplace"), value))
                size += len(value)
                if len(records) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                    return Batch(records, row)
        return Batch(records, None)

    def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        if revision <= head.revision:
            raise ValueError(f"revision {revision} does not follow {head.revision}")
        if excess := self._limits.excess(changes):
            return Refused(Refusal.TOO_LARGE, excess)
        moved = replace(head, revision=revision, digest=head.digest if digest is None else digest)
        committing = False
        try:
            connection = self._ready()
            connection.execute("BEGIN IMMEDIATE")
            stored = _stored_head(connection, head.journal)
            if stored != head:
                return Refused(Refusal.HEAD_MOVED, _moved(head, stored))
            written = [(head.journal, key, value) for key, value in changes if value is not None]
            deleted = [(head.journal, key) for key, value in changes if value is None]
            connection.executemany(_UPSERT, written)
            connection.executemany(_DELETE, deleted)
            _move_head(connection, moved)
            committing = True
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            return commit_end(error, committing=committing)
        except JournalDamaged as error:
            return Refused(Refusal.HEAD_MOVED, str(error))  # by a foreign hand; a take-over puts it right
        except BackendError as error:
            return Refused(Refusal.FAILED, str(error))
        finally:
            self._end_transaction()
        return Done(moved)

    @contextmanager
    def _transaction(self, begin: str, doing: str) -> Iterator[sqlite3.Connection]:
        """One transaction for anything but a commit, with SQLite's errors translated; rolled back unless committed."""
        try:
            connection = self._ready()
            connection.execute(begin)
            yield connection
        except sqlite3.Error as error:
            raise backend_error(error, doing) from error
        finally:
            self._end_transaction()

    def _ready(self) -> sqlite3.Connection:
        """The connection, if its file is still the one at the path: a commit to a deleted file would be lost."""
        if _identity_at(self._path) != self._identity:
            self.close()
            raise StorageUnavailable(f"{self._path} was moved, deleted or replaced while in use")
        if self._connection is None:
            self._connection = connect(self._path, self._busy_timeout, create=False)
        return self._connection

    def _end_transaction(self) -> None:
        """Make certain that what was not committed never will be: roll back, or else close the connection."""
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()


def _identity_at(path: Path) -> FileIdentity | None:
    """Which file it is. Raises `StorageUnavailable` where the path cannot be looked at."""
    try:
        return FileIdentity.of(path)
    except OSError as error:
        raise StorageUnavailable(f"cannot look at {path}: {error.strerror}") from error


def _stored_head(connection: sqlite3.Connection, journal: str) -> Head | None:
    """The stored head, or None for an absent journal. Raises `JournalDamaged` for one that makes no sense."""
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


def _last_head(connection: sqlite3.Connection, journal: str, ours: Head | None) -> Head | None:
    """The stored head, or ``ours`` where that is gone, unreadable or older: who holds the file's lock leads."""
    try:
        stored = _stored_head(connection, journal)
    except JournalDamaged as error:
        if ours is None:
            raise
        log.error("%s: it is written anew from memory", error)
        return ours
    if ours is None or (stored is not None and (stored.term, stored.revision) >= (ours.term, ours.revision)):
        return stored
    log.error("%s: it is written anew from memory", _moved(ours, stored))
    return ours


def _move_head(connection: sqlite3.Connection, head: Head) -> None:
    row = (head.journal, head.term, head.revision, head.lineage, head.digest, head.check)
    connection.execute(_MOVE_HEAD, row)


def _moved(expected: Head, stored: Head | None) -> str:
    if stored is None:
        return f"there is no journal {expected.journal!r}"
    return (
        f"the head of {expected.journal!r} is {stored.term}/{stored.revision}/{stored.lineage}, not"
        f" {expected.term}/{expected.revision}/{expected.lineage} (term/revision/lineage)"
    )

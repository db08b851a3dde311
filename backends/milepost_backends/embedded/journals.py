"""Keeps journals in one SQLite file. Only one thread uses the file, and no function in this module awaits."""

from __future__ import annotations

import logging
import secrets
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from milepost_backends.contract import (
    BackendError,
    Change,
    Commit,
    CommitRefused,
    Done,
    GroupLimits,
    Head,
    JournalDamaged,
    Refusal,
    StorageUnavailable,
    TakeOverLost,
    Unknown,
)
from milepost_backends.embedded.errors import backend_error, commit_end
from milepost_backends.embedded.heads import (
    InvalidHead,
    Moves,
    StoredHead,
    has_records,
    last_head,
    may_follow,
    move_head,
    moved,
    stored_head,
)
from milepost_backends.embedded.place import Displaced, SqlitePlace
from milepost_backends.embedded.salvage import mended
from milepost_backends.embedded.witness import Testimony

log = logging.getLogger("milepost.embedded")

_RESERVE_SECONDS = 1.0
_BATCH_ROWS = 1000
_BATCH_BYTES = 1024 * 1024
_LOG_BYTES = 64 * 1024
_CHANGE_BYTES = 16 * 1024
# Values are bound as a bytearray: sqlite3 looks for an adapter of bytes, which takes longer than binding them.
_UPSERT = (
    "INSERT INTO record (journal, key, value) VALUES (?, ?, ?)"
    " ON CONFLICT (journal, key) DO UPDATE SET value = excluded.value"
)
_DELETE = "DELETE FROM record WHERE journal = ? AND key = ?"
_MOVE = "UPDATE OR REPLACE record SET key = ?, value = ? WHERE journal = ? AND key = ?"
# The + keeps SQLite from using the index: the records are read in the order of the rows, so the file is read once. The
# casts return a damaged row of any type or encoding as well, so that the caller finds its checksum wrong.
_BATCH = "SELECT id, CAST(key AS BLOB), CAST(value AS BLOB) FROM record WHERE id > ? AND +journal = ? ORDER BY id"


class Batch(NamedTuple):
    """Some records of a journal, and the row of the database at which the next batch begins (None after the last
    batch).
    """

    records: list[Change]
    next: int | None


class SqliteJournals:
    """The journals of a pointer store in one SQLite file. Each call of a method runs one whole transaction, or none.

    Between calls the connection holds no lock and no read transaction.
    """

    def __init__(self, path: Path, busy_timeout: float, limits: GroupLimits, accept_loss: Collection[str]) -> None:
        self._place = SqlitePlace(path, busy_timeout, accept_loss)
        self._limits = limits
        self._moves = Moves()
        self._cursor: sqlite3.Cursor | None = None
        self._keep_at = 0.0
        self._taken: dict[str, str] = {}
        """For each journal, the lineage of the newest take-over that this process has made."""
        self.open = self._place.open
        self.close = self._place.close
        self.reserve = self._place.reserve

    def journals(self) -> list[str]:
        self._place.follow()
        with self._transaction("BEGIN", "cannot list the journals") as connection:
            return [str(name) for (name,) in connection.execute("SELECT journal FROM head ORDER BY journal")]

    def take_over(self, journal: str, ours: Head | None = None) -> Head:
        remembered = ours is not None and may_follow(ours, self._witness(journal))
        self._place.adopt(remembered=remembered)
        try:
            head = self._place.with_room(lambda: self._taken_over(journal, ours))
        except JournalDamaged as error:
            if not remembered:
                raise
            log.error("%s. This replica leads and writes it anew from memory", error)
            self._place.renew()
            head = self._place.with_room(lambda: self._taken_over(journal, ours))
        self._place.testify(self._place.witness.begin, head)
        self._taken[journal] = head.lineage
        return head

    def _taken_over(self, journal: str, ours: Head | None) -> Head:
        doing = f"cannot take over {journal!r}"
        with self._transaction("BEGIN IMMEDIATE", doing) as connection:
            if (what := mended(connection, self._place.path)) is not None:
                raise self._place.damaged(what)
            last = last_head(
                journal, _found(connection, journal), self._witness(journal), ours, self._place.accept_loss
            )
            last = last or Head(journal, 0, 0, "")
            head = Head(journal, last.term + 1, last.revision + 1, secrets.token_hex(6), last.digest)
            move_head(connection, head)
            connection.execute("COMMIT")
        self._place.note_log()
        return head

    def _witness(self, journal: str) -> Testimony:
        try:
            return self._place.witness.ask(journal)
        except OSError as error:
            raise StorageUnavailable(f"cannot read {self._place.witness.path}: {error.strerror}") from error

    def confirm(self, head: Head) -> bool:
        try:
            with self._transaction("BEGIN", f"cannot read the head of {head.journal!r}") as connection:
                stored = stored_head(connection, head.journal)
        except Displaced as error:
            log.error("%s", error)
            return False
        if self._place.unproven:
            return False
        return stored is not None and (stored.term, stored.lineage) == (head.term, head.lineage)

    def batch(self, head: Head, begin: int) -> Batch:
        """Return a batch of the journal's records from row ``begin`` of the database on.

        All batches show the same moment, since each is read only while ``head`` is the stored head. Otherwise this
        raises `TakeOverLost` or `StorageUnavailable`.
        """
        with self._transaction("BEGIN", f"cannot load {head.journal!r}") as connection:
            stored = stored_head(connection, head.journal)
            if stored != head:
                raise self._lost(head, stored)
            records: list[Change] = []
            size = 0
            for row, key, value in connection.execute(_BATCH, (begin, head.journal)):
                records.append(Change(key.decode("utf-8", "backslashreplace"), value))
                size += len(value)
                if len(records) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                    return Batch(records, row)
        return Batch(records, None)

    def _lost(self, head: Head, stored: Head | None) -> BackendError:
        """Return the error for a journal whose stored head is ``stored``, and not ``head``, as this process expects.

        If this process took the journal over last, and the stored head is older than ``head``, another program has
        changed the database; otherwise another process leads.
        """
        if self._taken.get(head.journal) != head.lineage:
            return TakeOverLost(moved(head, stored))
        if stored is not None and (stored.term, stored.revision) >= (head.term, head.revision):
            return TakeOverLost(moved(head, stored))
        return StorageUnavailable(f"another program changed the database: {moved(head, stored)}")

    def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        if revision <= head.revision:
            raise ValueError(f"revision {revision} does not follow {head.revision}")
        if excess := self._limits.excess(changes):
            return CommitRefused(Refusal.TOO_LARGE, excess)
        digest = head.digest if digest is None else digest
        after = Head(head.journal, head.term, revision, head.lineage, digest)
        outcome = self._committed(head, changes, after)
        if isinstance(outcome, Done):
            self._place.note_log()
            self._place.testify(self._place.witness.note, outcome.head)
            if not self._place.reserve.held:
                self._take_log_in()
        elif isinstance(outcome, CommitRefused) and outcome.reason is Refusal.FULL:
            self._place.reserve.give_up()
            self._take_log_in()
        return outcome

    def _committed(self, head: Head, changes: Sequence[Change], after: Head) -> Commit:
        committing = False
        try:
            connection = self._place.ready()
            if self._place.unproven:
                return CommitRefused(Refusal.HEAD_MOVED, f"{self._place.path} was replaced by another file")
            self._keep_reserve()
            # after a failure, the cursor is dropped with what it may still hold of the transaction
            cursor, self._cursor = self._cursor, None
            if cursor is None or cursor.connection is not connection:
                cursor = connection.cursor()
            execute, journal = cursor.execute, head.journal
            execute("BEGIN IMMEDIATE")
            if not self._moves.move(cursor, head, after):
                return CommitRefused(Refusal.HEAD_MOVED, moved(head, stored_head(connection, journal)))
            if len(changes) == 2 and (changes[0].value is None) is not (changes[1].value is None):
                _replace(cursor, journal, *changes)
            else:
                for key, value in changes:
                    if value is not None:
                        execute(_UPSERT, (journal, key, bytearray(value)))
                    else:
                        execute(_DELETE, (journal, key))
            committing = True
            execute("COMMIT")
            self._cursor = cursor
            self._place.check()
        except sqlite3.Error as error:
            needed = _bytes_of_log(changes)
            return commit_end(error, committing=committing, lacks_room=lambda: self._place.reserve.lacks(needed))
        # another program has changed the database file, which a take-over repairs
        except (JournalDamaged, Displaced) as error:
            return Unknown(str(error)) if committing else CommitRefused(Refusal.HEAD_MOVED, str(error))
        except BackendError as error:
            return Unknown(str(error)) if committing else CommitRefused(Refusal.FAILED, str(error))
        except UnicodeDecodeError as error:  # SQLite's error message quotes text that is not UTF-8
            return Unknown(repr(error.object)) if committing else CommitRefused(Refusal.FAILED, repr(error.object))
        finally:
            self._end_transaction()
        return Done(after)

    def _keep_reserve(self) -> None:
        """Look after the reserve: before each commit while it cannot be kept, else once in `_RESERVE_SECONDS`."""
        now = time.monotonic()
        if now >= self._keep_at or not self._place.reserve.held:
            self._keep_at = now + _RESERVE_SECONDS
            self._place.reserve.keep()

    def _take_log_in(self) -> None:
        """Copy the write-ahead log into the database, so that the next commit overwrites the log instead of extending
        it.

        This runs after each commit while the disk is so full that the reserve (`milepost_backends.disk.reserve`) cannot
        be kept. A commit adds some pages to the log, however little it changes, and the log would soon use up the room
        that is left for removals.
        """
        if (connection := self._place.connection) is not None:
            try:
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            except sqlite3.Error as error:
                log.warning("cannot checkpoint the write-ahead log of %s, which grows on: %s", self._place.path, error)

    @contextmanager
    def _transaction(self, begin: str, doing: str) -> Iterator[sqlite3.Connection]:
        """Run the block in a transaction, for any operation but a commit of a group, and translate SQLite's errors.

        ``begin`` is the statement that begins the transaction, and ``doing`` says what failed in an error message.
        Unless the block commits the transaction itself, it is rolled back.
        """
        try:
            connection = self._place.ready()
            connection.execute(begin)
            yield connection
        except sqlite3.Error as error:
            translated = backend_error(error, doing)
            if isinstance(translated, JournalDamaged):
                translated = self._place.damaged(str(translated))
            raise translated from error
        except UnicodeDecodeError as error:  # SQLite's error message quotes text that is not UTF-8
            raise self._place.damaged(f"{doing}: {error.object!r}") from error
        finally:
            self._end_transaction()

    def _end_transaction(self) -> None:
        """End the open transaction by a rollback. If that fails, close the connection, so that nothing of it is
        committed.
        """
        connection = self._place.connection
        if connection is not None and connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()


def _replace(cursor: sqlite3.Cursor, journal: str, one: Change, other: Change) -> None:
    """Delete the record of one of the two changes, and write that of the other, as a rename of a file does. Usually
    one statement does both: it gives the row of the deleted record to the written one.
    """
    gone, (key, value) = (one, other) if one.value is None else (other, one)
    assert value is not None
    cursor.execute(_MOVE, (key, content := bytearray(value), journal, gone.key))
    if cursor.rowcount != 1:  # there was none to delete
        cursor.execute(_UPSERT, (journal, key, content))


def _bytes_of_log(changes: Sequence[Change]) -> int:
    """Return the most bytes that a group can take in the write-ahead log.

    They are some pages for each change, and twice the content of the changes.
    """
    return _LOG_BYTES + sum(_CHANGE_BYTES + 2 * len(value or b"") for _, value in changes)


def _found(connection: sqlite3.Connection, journal: str) -> StoredHead:
    records = has_records(connection, journal)
    try:
        return StoredHead(stored_head(connection, journal), None, None, records)
    except InvalidHead as error:
        return StoredHead(None, str(error), error.sign, records)

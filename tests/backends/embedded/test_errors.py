"""SQLite's errors, each made with SQLite itself, and what they mean before and in COMMIT.

Errors in COMMIT itself are made in test_scarcity.py, where the system fails it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from milepost_backends.contract import (
    BackendError,
    CommitRefused,
    JournalDamaged,
    Misconfigured,
    Refusal,
    StorageFull,
    StorageUnavailable,
    Unknown,
)
from milepost_backends.embedded.errors import backend_error, commit_end, is_busy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one table."""
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (value BLOB)")
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        yield connection


def full(connection: sqlite3.Connection, path: Path) -> None:
    del path
    connection.execute("PRAGMA max_page_count = 3")
    connection.execute("INSERT INTO t VALUES (zeroblob(100000))")


def too_large(connection: sqlite3.Connection, path: Path) -> None:
    del path
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    connection.execute("INSERT INTO t VALUES (?)", (b"x" * 2000,))


def busy(connection: sqlite3.Connection, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        connection.execute("BEGIN IMMEDIATE")


def read_only(connection: sqlite3.Connection, path: Path) -> None:
    del connection
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as other:
        other.execute("INSERT INTO t VALUES (1)")


def not_a_database(connection: sqlite3.Connection, path: Path) -> None:
    del connection
    path.write_bytes(b"no database, but long enough to be looked at by SQLite. " * 100)
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT * FROM t")


def corrupt(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096)
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT * FROM t").fetchall()


def cannot_open(connection: sqlite3.Connection, path: Path) -> None:
    del connection
    with closing(sqlite3.connect(f"{path.as_uri()}.absent?mode=rw", uri=True)) as other:
        other.execute("SELECT 1")


def closed(connection: sqlite3.Connection, path: Path) -> None:
    """One that the Python module finds by itself, so that it carries no code of SQLite's."""
    del path
    connection.close()
    connection.execute("SELECT 1")


def refused_by_the_system() -> sqlite3.Error:
    """Made up: the system would have to refuse a write of this process. test_scarcity.py has it from a real one."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_WRITE, "SQLITE_IOERR_WRITE"
    return error


def never_asked() -> bool:
    pytest.fail("it is not a matter of room")


Fault = Callable[[sqlite3.Connection, Path], None]


def made_by(fault: Fault, connection: sqlite3.Connection, path: Path) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as raised:
        fault(connection, path)
    return raised.value


@pytest.mark.parametrize(
    ("fault", "refusal", "kind"),
    [
        (full, Refusal.FULL, StorageFull),
        (too_large, Refusal.TOO_LARGE, StorageUnavailable),
        (read_only, Refusal.DENIED, Misconfigured),
        (busy, Refusal.FAILED, StorageUnavailable),
        (not_a_database, Refusal.FAILED, JournalDamaged),
        (corrupt, Refusal.FAILED, JournalDamaged),
        (cannot_open, Refusal.FAILED, StorageUnavailable),
        (closed, Refusal.FAILED, StorageUnavailable),
    ],
)
def test_each_error_has_its_meaning(
    fault: Fault, refusal: Refusal, kind: type[BackendError], connection: sqlite3.Connection, path: Path
) -> None:
    error = made_by(fault, connection, path)
    end = commit_end(error, committing=False, lacks_room=never_asked)
    assert isinstance(end, CommitRefused)
    assert end.reason is refusal
    assert str(error) in end.detail
    translated = backend_error(error, "cannot do it")
    assert type(translated) is kind
    assert str(translated).startswith(f"cannot do it: {error}")
    assert is_busy(error) is (fault is busy)


@pytest.mark.parametrize("fault", [too_large, read_only, busy, not_a_database, corrupt, cannot_open, closed])
def test_in_commit_nothing_but_a_full_disk_is_certain(fault: Fault, connection: sqlite3.Connection, path: Path) -> None:
    error = made_by(fault, connection, path)
    assert isinstance(commit_end(error, committing=True, lacks_room=never_asked), Unknown)


def test_a_full_disk_is_certain_in_commit_too(connection: sqlite3.Connection, path: Path) -> None:
    end = commit_end(made_by(full, connection, path), committing=True, lacks_room=never_asked)
    assert isinstance(end, CommitRefused)
    assert end.reason is Refusal.FULL


@pytest.mark.parametrize("committing", [False, True])
def test_a_write_that_was_refused_for_want_of_room_is_certain_too(committing: bool) -> None:
    """As under a quota, which SQLite does not call a full disk."""
    end = commit_end(refused_by_the_system(), committing=committing, lacks_room=lambda: True)
    assert isinstance(end, CommitRefused)
    assert end.reason is Refusal.FULL
    other = commit_end(refused_by_the_system(), committing=committing, lacks_room=lambda: False)
    assert isinstance(other, Unknown) is committing

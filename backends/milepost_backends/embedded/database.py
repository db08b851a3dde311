"""Opens the SQLite file in which the pointers are: checks its location and schema, and makes its commits durable."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from milepost_backends.contract import BackendError, JournalDamaged, Misconfigured
from milepost_backends.disk.filesystem import (
    PRIVATE_FILE,
    keep_private,
    make_durable_directory,
    require_local,
    sync_directory,
)
from milepost_backends.embedded.errors import backend_error, is_busy, os_error

APPLICATION_ID = 0x4D4C5053  # "MLPS" in ASCII: an SQLite file with another id belongs to another program
SCHEMA_VERSION = 2

_SCHEMA = """
CREATE TABLE head (
    journal TEXT PRIMARY KEY, term INTEGER NOT NULL, revision INTEGER NOT NULL, lineage TEXT NOT NULL,
    digest TEXT NOT NULL, "check" TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE record (
    id INTEGER PRIMARY KEY, journal TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, UNIQUE (journal, key)
);
"""
_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA cache_size = -16384",
    "PRAGMA journal_size_limit = 67108864",
)


def prepare_directory(path: Path) -> None:
    """Make the parent directory of the database file ``path`` durably, and check that it is local and can be written.

    Raises `Misconfigured`.
    """
    directory = path.parent
    require_local(directory)
    try:
        make_durable_directory(directory)
        for each in (directory, path, *log_files(path)):
            keep_private(each)
    except OSError as error:
        raise Misconfigured(f"cannot make {directory} and keep it private: {error.strerror}") from error
    for each in (path, *log_files(path)):
        if each.is_dir():
            raise Misconfigured(f"{each} is a directory, and must be a file")
    for each in (directory, path):
        if each.exists() and not os.access(each, os.R_OK | os.W_OK):
            raise Misconfigured(f"{each} must be readable and writable for this user")


def log_files(path: Path) -> tuple[Path, Path]:
    """Return the paths of the write-ahead log of the database at ``path``, and of SQLite's index of that log."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def connect(path: Path, busy_timeout: float, *, create: bool) -> sqlite3.Connection:
    """Return a connection to the database at ``path``, which gets the current schema if it is new. Commits are durable.

    With ``create``, an absent file is made. ``busy_timeout`` (seconds) bounds each wait for another process. Raises
    `Misconfigured` (the file is not Milepost's, or has a newer schema), `JournalDamaged`, `StorageFull`,
    `StorageUnavailable`.
    """
    address = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}&psow=1"
    doing = f"cannot open {path}"
    try:
        if create:  # SQLite copies the mode of the database file to its log and index
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))
        connection = sqlite3.connect(address, uri=True, timeout=busy_timeout, isolation_level=None)
    except sqlite3.Error as error:
        raise backend_error(error, doing) from error
    except OSError as error:
        raise os_error(error, doing) from error
    connection.text_factory = _text
    try:
        _set_up(connection, path, busy_timeout)
        sync_directory(path.parent)
    except sqlite3.Error as error:
        connection.close()
        raise backend_error(error, doing) from error
    except UnicodeDecodeError as error:  # SQLite's error message quotes text of the database that is not UTF-8
        connection.close()
        raise JournalDamaged(f"{doing}: {_text(error.object)}") from error
    except OSError as error:
        connection.close()
        raise os_error(error, doing) from error
    except BackendError:
        connection.close()
        raise
    return connection


def _text(content: bytes) -> str:
    """Return the bytes of a text column as text, with bytes that are not UTF-8 escaped.

    So a damaged text can be read without an error, and the checksum beside it shows the damage.
    """
    return content.decode("utf-8", "backslashreplace")


def _set_up(connection: sqlite3.Connection, path: Path, busy_timeout: float) -> None:
    with _transaction(connection, "BEGIN"):  # a read transaction, since the file may be another program's
        _has_schema(connection, path)
    _use_write_ahead_log(connection, path, busy_timeout)
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    # IMMEDIATE takes the write lock, which fails if the file cannot be written
    with _transaction(connection, "BEGIN IMMEDIATE"):
        if not _has_schema(connection, path):
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        check_schema(connection)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise `JournalDamaged` unless the schema is the one that this module creates.

    SQLite itself does not notice a changed bit in the name of a column: the column is then absent.
    """
    found = {str(sql) for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    meant = {statement.strip() for statement in _SCHEMA.split(";") if statement.strip()}
    if found != meant:
        raise JournalDamaged(f"its schema is not the one it was created with: {'; '.join(sorted(found - meant))}")


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _has_schema(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the database has Milepost's schema; False for an empty file.

    Raises `Misconfigured` for another program's file. Call this in a transaction, so that no other process can make the
    schema after this check.
    """
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == version == 0 and _number(connection, "SELECT count(*) FROM sqlite_master") == 0:
        return False
    if application != APPLICATION_ID:
        raise Misconfigured(f"{path} is an SQLite database, but not one of Milepost's")
    if version < SCHEMA_VERSION:
        raise Misconfigured(f"{path} has schema {version}, from before the first release: start in an empty directory")
    if version > SCHEMA_VERSION:
        raise Misconfigured(
            f"{path} has schema {version}, and this release knows schemas up to {SCHEMA_VERSION}: use a newer release"
        )
    return True


def _use_write_ahead_log(connection: sqlite3.Connection, path: Path, busy_timeout: float) -> None:
    """Switch the database to a write-ahead log, and wait up to ``busy_timeout`` seconds for other connections.

    SQLite's own busy timeout does not always apply to this switch, so this function tries it again and again.
    """
    deadline = time.monotonic() + busy_timeout
    while (mode := _journal_mode(connection, may_be_busy=time.monotonic() < deadline)) is None:
        time.sleep(0.01)
    if mode != "wal":
        raise Misconfigured(f"{path} cannot have a write-ahead log here (its journal mode stays {mode})")


def _journal_mode(connection: sqlite3.Connection, *, may_be_busy: bool) -> str | None:
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.Error as error:
        if may_be_busy and is_busy(error):
            return None
        raise
    return str(mode)


def _number(connection: sqlite3.Connection, query: str) -> int:
    (value,) = connection.execute(query).fetchone()
    return int(value)

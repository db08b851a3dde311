"""Finds damage in an SQLite file, rebuilds its index, and salvages its readable records."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Final

from milepost_backends.contract import JournalDamaged
from milepost_backends.disk.filesystem import PRIVATE_FILE, sync_directory
from milepost_backends.embedded.database import check_schema, connect, log_files

log = logging.getLogger("milepost.embedded")

_SHOWN: Final = 3
_PAGE: Final = 4096
_CHANGE_COUNTER: Final = 27
_OF_AN_INDEX: Final = ("missing from index", "wrong # of entries in index", "non-unique entry in index")
_HEADS: Final = 'SELECT journal, term, revision, lineage, digest, "check" FROM head'
_RECORDS: Final = "SELECT id, journal, key, value FROM record NOT INDEXED WHERE id {} ? ORDER BY id {}"
_STRANGE: Final = (
    "SELECT CAST(key AS BLOB) FROM (SELECT id, journal, key FROM record INDEXED BY sqlite_autoindex_record_1)"
    " EXCEPT SELECT CAST(key AS BLOB) FROM record NOT INDEXED"
)
"""The query for keys that are in the index but not in the table."""


def mended(connection: sqlite3.Connection, path: Path) -> str | None:
    """Check every page of the database, and rebuild the index if only the index is damaged.

    Return any other damage in words; None if there is none. The digest in the head verifies the records, but not the
    index that leads to them; and a record that the index does not find would be written a second time. If table and
    index have different keys for one record, nothing shows which key is right. Call this in a transaction that may
    write. ``path`` is that of the database, for the log.
    """
    try:
        check_schema(connection)
    except JournalDamaged as error:
        return str(error)
    found = _problems(connection)
    if found and all(any(words in line for words in _OF_AN_INDEX) for line in found):
        if (strange := connection.execute(_STRANGE).fetchone()) is not None:
            return f"table and index name one record differently: {strange!r}"
        try:
            connection.execute("REINDEX record")
        except sqlite3.IntegrityError as error:
            return f"{found[0]}; {error}"
        log.error("the index in %s lacked records and was rebuilt from the table: %s", path, found[0])
        found = _problems(connection)
    return "; ".join(found[:_SHOWN]) if found else None


def _problems(connection: sqlite3.Connection) -> list[str]:
    lines = [" ".join(str(line).split()) for (line,) in connection.execute("PRAGMA integrity_check(20)")]
    return [] if lines == ["ok"] else lines


def salvage(path: Path, busy_timeout: float) -> None:
    """Put the damaged database ``path`` and its logs aside unchanged, and make a new file with every readable record.

    If the damaged file does not exist, the new file is empty. Raises sqlite3.Error, OSError, `BackendError`.
    """
    new, patched = path.with_name(f"{path.name}.new"), path.with_name(f"{path.name}.patched")
    for each in (new, patched, *log_files(new), *log_files(patched)):
        each.unlink(missing_ok=True)
    connect(new, busy_timeout, create=True).close()
    heads, records = _readable(path) if path.exists() else ([], {})
    if not heads and path.exists():
        _patch(path, new, patched)
        more = _readable(patched)
        heads, records = more[0], more[1] | records
        for each in (patched, *log_files(patched)):
            each.unlink(missing_ok=True)
    with closing(connect(new, busy_timeout, create=True)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR IGNORE INTO head VALUES (?, ?, ?, ?, ?, ?)", heads)
        connection.executemany("INSERT OR IGNORE INTO record VALUES (?, ?, ?, ?)", records.values())
        connection.execute("COMMIT")
    aside = next(name for number in count(1) if not _taken(name := path.with_name(f"{path.name}.damaged-{number}")))
    for each, suffix in zip(log_files(path), ("-wal", "-shm"), strict=True):
        if each.exists():
            each.rename(aside.with_name(aside.name + suffix))
    if path.exists():
        path.rename(aside)
        log.error("%s was damaged: it is kept as %s, and %d records of it were salvaged", path, aside, len(records))
    else:
        log.error("%s was gone: replaced by a new, empty file", path)
    new.rename(path)
    sync_directory(path.parent)


def _taken(name: Path) -> bool:
    """Return whether there is already a database with this name, or the log of one."""
    return any(each.exists() for each in (name, *log_files(name)))


def _patch(path: Path, new: Path, patched: Path) -> None:
    """Write a copy of the damaged file ``path``, but with the first page of the new database ``new``, to ``patched``.

    The first page has the file header and the schema, which are the same in both. The change counter in the copied
    header is altered, because SQLite then counts the pages itself.
    """
    first = bytearray(new.read_bytes()[:_PAGE])
    first[_CHANGE_COUNTER] ^= 0xFF
    patched.touch(PRIVATE_FILE)
    patched.write_bytes(bytes(first) + path.read_bytes()[_PAGE:])


def _readable(path: Path) -> tuple[list[tuple[Any, ...]], dict[Any, tuple[Any, ...]]]:
    """Return the heads, and the records by row, that can be read from a damaged database.

    The rows are read forward from the first one until reading fails, and then backward from the last one.
    """
    heads: list[tuple[Any, ...]] = []
    records: dict[Any, tuple[Any, ...]] = {}
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        log.error("cannot open the damaged %s, so nothing of it is salvaged: %s", path, error)
        return heads, records
    with closing(connection):
        connection.text_factory = _text

        def forward() -> None:
            _take(connection, _RECORDS.format(">", ""), lambda row: records.setdefault(row[0], row))

        def backward() -> None:
            _take(connection, _RECORDS.format("<", "DESC"), lambda row: records.setdefault(row[0], row), 2**62)

        _attempt(lambda: heads.extend(connection.execute(_HEADS)), f"the heads in {path}")
        _attempt(forward, f"the records in {path}")
        _attempt(backward, f"the records in {path}, from their end")
    return heads, records


def _take(
    connection: sqlite3.Connection, query: str, keep: Callable[[tuple[Any, ...]], object], begin: int = -(2**62)
) -> None:
    for row in connection.execute(query, (begin,)):
        keep(row)


def _attempt(act: Callable[[], None], what: str) -> None:
    try:
        act()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's messages may quote damaged text
        log.error("cannot read all of %s, and go on with what was read: %s", what, error)


def _text(content: bytes) -> str | bytes:
    """Return the bytes of a text column decoded, or unchanged if they are not valid UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content

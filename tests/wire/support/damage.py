"""Faults that are made with the real parts of an embedded server: its database, its blob files, its directories."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from testbed.server import ServerProcess


def database(server: ServerProcess) -> Path:
    """The file that holds the server's pointers."""
    return Path(server.pointers.removeprefix("embedded:")) / "pointers.db"


def blob_directory(server: ServerProcess) -> Path:
    """The directory that holds the server's blobs."""
    return Path(server.blobs.removeprefix("file:"))


def blob_file(server: ServerProcess, store: str, name: str) -> Path:
    """The file with the bytes of a handle."""
    with closing(sqlite3.connect(database(server))) as connection:
        query = "SELECT value FROM record WHERE key = ?"
        (value,) = connection.execute(query, (f"stores/{store}/handles/{name}",)).fetchone()
    return blob_directory(server) / str(json.loads(value)["blob"])


def blob_files(server: ServerProcess) -> set[str]:
    """Everything that lies among the blobs, temporary files included."""
    root = blob_directory(server)
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def damage_record(server: ServerProcess, key: str, value: bytes) -> None:
    """Write nonsense over a record; the server must be down, for it reads records at a take-over only."""
    assert not server.running
    with closing(sqlite3.connect(database(server))) as connection, connection:
        changed = connection.execute("UPDATE record SET value = ? WHERE key = ?", (value, key)).rowcount
    assert changed == 1


def name_blob(server: ServerProcess, key: str, blob: str) -> None:
    """Let the record of a handle name another blob; the server must be down."""
    with closing(sqlite3.connect(database(server))) as connection:
        (value,) = connection.execute("SELECT value FROM record WHERE key = ?", (key,)).fetchone()
    damage_record(server, key, json.dumps({**json.loads(value), "blob": blob}).encode())


@contextmanager
def pointers_away(server: ServerProcess) -> Iterator[None]:
    """The database is not where it was; in the end it is there again, as old as it is by then."""
    path = database(server)
    path.rename(path.with_suffix(".away"))
    try:
        yield
    finally:
        path.with_suffix(".away").rename(path)


@contextmanager
def unreachable(directory: Path) -> Iterator[None]:
    """A loop of links stands where ``directory`` was: whatever lies in it is there, but cannot be reached (ELOOP).

    Unlike permissions this also stops a server that runs as root.
    """
    away = directory.with_name(f"{directory.name}.away")
    directory.rename(away)
    directory.symlink_to(directory.name)
    try:
        yield
    finally:
        directory.unlink()
        away.rename(directory)

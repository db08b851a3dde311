"""All that a service ever wrote to its journal, kept by the database itself: also what was overwritten or dropped."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from milepost_backends.embedded.pointers import FILE_NAME
from milepost_server.model.records import Handle, Store, decode
from milepost_server.model.trees import Entry, TreePath

_SECONDS = 30.0
_KEEP = """
BEGIN IMMEDIATE;
CREATE TABLE written (id INTEGER PRIMARY KEY, key TEXT, value BLOB);
CREATE TRIGGER written_first AFTER INSERT ON record
    BEGIN INSERT INTO written (key, value) VALUES (new.key, new.value); END;
CREATE TRIGGER written_anew AFTER UPDATE ON record
    BEGIN INSERT INTO written (key, value) VALUES (new.key, new.value); END;
INSERT INTO written (key, value) SELECT key, value FROM record;
COMMIT;
"""
_PUT_ASIDE = """
CREATE TABLE IF NOT EXISTS aside.written (id INTEGER PRIMARY KEY, key TEXT, value BLOB);
BEGIN IMMEDIATE;
INSERT INTO aside.written (key, value) SELECT key, value FROM main.written ORDER BY id;
DROP TRIGGER main.written_first;
DROP TRIGGER main.written_anew;
DROP TABLE main.written;
COMMIT;
"""


class Birth(NamedTuple):
    """A file or a directory came to be at ``path``, at a revision, under an epoch."""

    path: str
    created_revision: int
    epoch: int | None


class Journal(ABC):
    """All records that a service ever wrote."""

    def births(self, store: str) -> set[Birth]:
        """All that ever came to be in the tree of a store."""
        return {Birth(path, entry.created_revision, entry.epoch) for path, entry in self.entries(store)}

    def entries(self, store: str) -> Iterator[tuple[str, Entry]]:
        """Each path of the tree of a store with what was there, as often as it was written."""
        for key, record in self.records():
            if isinstance(record, TreePath) and key.startswith(f"stores/{store}/"):
                yield from ((record.path, entry) for entry in record.entries)

    def grants(self, store: str) -> dict[int, int]:
        """The revision at which each epoch of a store was granted."""
        return {
            record.epoch: record.granted
            for _, record in self.records()
            if isinstance(record, Store) and record.name == store and record.epoch
        }

    def late(self, store: str) -> list[Birth]:
        """What was written under an epoch after the grant of a newer one: files, directories and handles."""
        grants, births = self.grants(store), self.births(store)
        assert births, "nothing was ever written there"
        written: dict[tuple[str, str], Birth] = {}
        for key, record in self.records():
            if isinstance(record, Handle) and key.startswith(f"stores/{store}/"):
                # The record is written anew for locks as well, under nobody's epoch; its version stays then.
                birth = Birth(f"handle {record.name}", record.changed, record.epoch)
                written.setdefault((record.name, record.version), birth)
        return sorted(
            birth
            for birth in births | set(written.values())
            if any(epoch > (birth.epoch or 0) and birth.created_revision > granted for epoch, granted in grants.items())
        )

    @abstractmethod
    def records(self) -> Iterator[tuple[str, object]]:
        """All of them with their keys, in the order in which they were written."""


def _is_followed(database: sqlite3.Connection) -> bool:
    return database.execute("SELECT 1 FROM sqlite_master WHERE name = 'written'").fetchone() is not None


class Written(Journal):
    """The journal of an embedded service that keeps its pointers in ``directory``, from now on.

    A service refuses to start with a database that has more in it than it made itself. So before a start the table has
    to be `put_aside`, and after that the service is followed (`follow`) again. A service that stood still for longer
    than a commit may take finds the table in its own database, keeps that file as damaged, and goes on with a new one:
    then the table is in the file that was kept.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._aside = directory.parent / "written.db"
        self.follow()

    def follow(self) -> None:
        """Keep what is written from now on, and what is there already."""
        with closing(self._open()) as database:
            database.executescript(_KEEP)

    def put_aside(self) -> None:
        """Move all that was kept to a file of its own, once the service has ended or has begun a new database."""
        for path in (*sorted(self._path.parent.glob(f"{FILE_NAME}.damaged-*")), self._path):
            with closing(sqlite3.connect(path, timeout=_SECONDS)) as database:
                if _is_followed(database):
                    database.execute("ATTACH ? AS aside", (str(self._aside),))
                    database.executescript(_PUT_ASIDE)

    @property
    def followed(self) -> bool:
        """Whether what the service writes now is kept."""
        with closing(self._open()) as database:
            return _is_followed(database)

    def records(self) -> Iterator[tuple[str, object]]:
        """See `Journal.records`."""
        for path in (self._aside, self._path):
            if path.exists():
                with closing(sqlite3.connect(path, timeout=_SECONDS)) as database:
                    rows = database.execute("SELECT key, value FROM written ORDER BY id").fetchall()
                for key, value in rows:
                    yield key, decode(key, value)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_SECONDS)

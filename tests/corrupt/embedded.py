"""The files of embedded storage: the database, its log, the witness beside it, and those of the election."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

from milepost_backends.embedded.election import EmbeddedElection
from milepost_backends.embedded.pointers import FILE_NAME, WITNESS_NAME, EmbeddedPointers
from milepost_backends.local.blobs import LocalBlobs
from tests.contracts.places import Services
from tests.corrupt.shape import EVERYTHING, Damage, Kind, Scene, Store, Thing, everything
from tests.support.servers.replicas import Backends

PAGE = 4096
_PLACES = frozenset({Damage.BIT, Damage.BYTE})
_ROOT_PAGES = {
    "page of the schema": "SELECT 1",
    "page of the head": "SELECT rootpage FROM sqlite_master WHERE name = 'head'",
    "page of records": "SELECT rootpage FROM sqlite_master WHERE name = 'record'",
    "page of the index": "SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex_record%'",
}
_FILES = {
    "database": FILE_NAME,
    "write-ahead log": f"{FILE_NAME}-wal",
    "index of the log": f"{FILE_NAME}-shm",
    "witness": WITNESS_NAME,
    "leader.json": "leader.json",
    "leader.lock": "leader.lock",
}
_OF_A_KILLED_LEADER = frozenset({"write-ahead log", "index of the log"})
"""These are gone once a leader ended in good order. (Under a leader the index is its memory: who cuts it short ends the
process, and it is made anew.)
"""


class EmbeddedScene(Scene):
    """Everything in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pointers = directory / "pointers"
        self._aside: dict[str, bytes] = {}

    def build(self, advertise: str) -> Backends:
        return Backends(
            EmbeddedPointers(self.pointers, accept_loss=self.accept_loss),
            EmbeddedElection(self.pointers, advertise, poll=0.02),
            LocalBlobs(self.directory / "blobs"),
        )

    async def thing(self, kind: str, chance: random.Random) -> Thing:
        del chance  # there is one of each kind
        if kind == EVERYTHING:
            return everything(lambda: shutil.rmtree(self.pointers))
        if kind in _ROOT_PAGES:
            return file_thing(self.pointers / FILE_NAME, self._page(_ROOT_PAGES[kind]))
        thing = file_thing(self.pointers / _FILES[kind])
        return Thing(self._database, thing.write) if kind == "database" else thing

    async def leader_ends(self, kind: str, killed: bool) -> None:
        if killed or kind in _OF_A_KILLED_LEADER:
            for path in self.pointers.glob(f"{FILE_NAME}*"):
                self._aside[path.name] = path.read_bytes()

    async def leader_ended(self, kind: str) -> None:
        del kind
        for name, content in self._aside.items():
            (self.pointers / name).write_bytes(content)

    async def _database(self) -> bytes | None:
        """As a backup made at this moment has it, whatever of it is still in the log."""
        with closing(sqlite3.connect(self.pointers / FILE_NAME)) as connection:
            return connection.serialize()

    def _page(self, query: str) -> Callable[[bytes], Sequence[int]]:
        with closing(sqlite3.connect(self.pointers / FILE_NAME)) as connection:
            (number,) = connection.execute(query).fetchone()
            connection.execute("PRAGMA wal_checkpoint").fetchall()
        page = range((number - 1) * PAGE, number * PAGE)
        return lambda content: [at for at in page if content[at]]


def file_thing(path: Path, span: Callable[[bytes], Sequence[int]] | None = None) -> Thing:
    """A file."""

    async def read() -> bytes | None:
        return _read(path)

    async def write(content: bytes | None) -> None:
        _write(path, content)

    return Thing(read, write, span)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _write(path: Path, content: bytes | None) -> None:
    """In place, as a failing disk does: a process that has the file open sees it."""
    if content is None:
        path.unlink(missing_ok=True)
    elif not path.exists():
        path.write_bytes(content)
    else:
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()


@asynccontextmanager
async def _open(directory: Path, services: Services) -> AsyncIterator[Scene]:
    del services
    yield EmbeddedScene(directory)


_SHARED_MEMORY = "it is made anew from the log by the process that opens the database first"
_NAMES = "it only names the leader to other processes, and the next leader writes it anew"
_LOCK = "it is empty, and only its lock counts"

STORE = Store(
    "embedded",
    (
        Kind("database", weight=4),
        *(Kind(name, _PLACES, weight=5) for name in _ROOT_PAGES),
        Kind("write-ahead log", weight=6),
        Kind("index of the log", harmless=_SHARED_MEMORY, under_leader=frozenset({Damage.GONE})),
        Kind("witness", weight=3),
        Kind("leader.json", harmless=_NAMES),
        Kind("leader.lock", frozenset({Damage.GONE}), harmless=_LOCK),
        Kind(EVERYTHING, frozenset({Damage.GONE}), under_leader=frozenset()),
    ),
    _open,
)

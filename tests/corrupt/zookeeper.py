"""The znodes of a service: heads, records, the witness, and the entries of the election."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.election.candidate import election_of
from milepost_backends.zookeeper.election.election import ZooKeeperElection
from milepost_backends.zookeeper.pointers.layout import HEAD_PREFIX, ZnodeLayout
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from milepost_server.model.paths import path_key
from milepost_server.model.records import tree_key
from tests.contracts.journals import ROOT
from tests.contracts.places import Services
from tests.corrupt.files import CHANGED, FileHistory
from tests.corrupt.history import SESSION
from tests.corrupt.shape import ALL, EVERYTHING, Damage, Kind, Scene, Store, Thing, everything
from tests.service.acting import STORE as JOB
from tests.support.servers import zookeeper
from tests.support.servers.replicas import Backends

_CHANGED = ("h2", "h3")
"""Handles that are there before and after the history goes on, and are not the same then."""


class ZooKeeperScene(Scene):
    """Pointers and election below one znode, blobs in a directory."""

    def __init__(self, directory: Path, address: ZooKeeperAddress, visitor: KazooClient) -> None:
        self._directory = directory
        self._address = address
        self._visitor = visitor
        self._layout = ZnodeLayout(address.root, ROOT)

    def build(self, advertise: str) -> Backends:
        return Backends(
            ZooKeeperPointers(self._address, accept_loss=self.accept_loss),
            ZooKeeperElection(self._address, advertise),
            LocalBlobs(self._directory / "blobs"),
        )

    async def thing(self, kind: str, chance: random.Random) -> Thing:
        if kind == EVERYTHING:
            return everything(lambda: self._visitor.delete(self._address.root, recursive=True))
        return self._znode(await asyncio.to_thread(self._path, kind, chance))

    def _path(self, kind: str, chance: random.Random) -> str:
        records = {
            "record of a handle": f"stores/{JOB}/handles/{chance.choice(_CHANGED)}",
            "record of a store": f"stores/{JOB}",
            "record of a session": f"sessions/{SESSION}",
            "record of a path": path_key(JOB, CHANGED),
            "record of a tree": tree_key(JOB),
        }
        if kind in records:
            return self._layout.record(records[kind])
        if kind == "witness":
            return self._layout.witness
        place = self._layout.place if kind == "head" else election_of(self._address.root)
        names: list[str] = self._visitor.get_children(place)
        (name,) = (name for name in names if kind != "head" or name.startswith(HEAD_PREFIX))
        return f"{place}/{name}"

    def _znode(self, path: str) -> Thing:
        def get() -> bytes | None:
            try:
                return bytes(self._visitor.get(path)[0])
            except NoNodeError:
                return None

        def put(content: bytes | None) -> None:
            if content is None:
                self._visitor.delete(path, recursive=True)
            elif self._visitor.exists(path) is None:
                self._visitor.create(path, content, makepath=True)
            else:
                self._visitor.set(path, content)

        async def read() -> bytes | None:
            return await asyncio.to_thread(get)

        async def write(content: bytes | None) -> None:
            await asyncio.to_thread(put, content)

        return Thing(read, write)


@asynccontextmanager
async def _open(directory: Path, services: Services) -> AsyncIterator[Scene]:
    address = ZooKeeperAddress.parse(zookeeper.fresh_url(directory, services))
    with zookeeper.visitor(address.hosts) as visitor:
        yield ZooKeeperScene(directory, address, visitor)


_NEVER_CHANGES = ALL - {Damage.OLDER}
_ENTRY = "it goes with the leader's session; altered it names nobody, and the leader writes it anew"

STORE = Store(
    "ZooKeeper",
    (
        Kind("head", weight=4),
        Kind("witness", weight=4),
        Kind("record of a handle", weight=4),
        Kind("record of a store", weight=2),
        Kind("record of a session", _NEVER_CHANGES, weight=2),
        Kind("record of a path", weight=2, history=FileHistory),
        Kind("record of a tree", weight=2, history=FileHistory),
        Kind("entry of the election", frozenset(), harmless=_ENTRY, under_leader=_NEVER_CHANGES, weight=2),
        Kind(EVERYTHING, frozenset({Damage.GONE}), under_leader=frozenset()),
    ),
    _open,
)

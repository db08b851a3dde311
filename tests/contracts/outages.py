"""Real servers of a test's own, which it may stop and hang: what the contract promises in an outage is shown on them.

Embedded pointers and elections and local blobs are not among them. They keep their things in files, and no server can
stop or hang under those; what a file system does to them is shown in tests/backends.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pytest

from milepost_backends.contract import BlobStore, Election, PointerStore
from milepost_backends.hdfs.blobs import HdfsBlobs
from milepost_backends.kubernetes.election.election import KubernetesElection
from milepost_backends.s3.blobs import S3Blobs
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.election.election import ZooKeeperElection
from testbed.hadoop.hdfs import Hdfs
from testbed.kubernetes.api import KubernetesApi
from testbed.seaweedfs import SeaweedFS
from testbed.zookeeper import ZooKeeperServer, zookeeper
from tests.backends.kubernetes.places import opened as opened_in_kubernetes
from tests.backends.zookeeper.pointers.places import opened as opened_in_zookeeper
from tests.support.servers import hdfs, kubernetes, s3
from tests.support.servers.zookeeper import url as zookeeper_url

P = TypeVar("P", covariant=True)
S = TypeVar("S", bound="Server[object]")

PATIENT_SECONDS = 300.0
ELECTION_SECONDS = 20.0


class Server(Protocol[P]):
    """A server that serves, and the ways to take it from its clients and to give it back."""

    def place(self) -> P:
        """Make a place in it that nobody else uses."""

    def stop(self) -> None:
        """Kill it."""

    def start(self) -> None:
        """Start it, and wait until it serves; nothing if it runs."""

    def hang(self) -> None:
        """Have it take connections, and do nothing and say nothing."""

    def wake(self) -> None:
        """Have it go on; nothing if it does."""


class BlobPlace(Protocol):
    """A place for blobs in such a server."""

    def build(self, *, patient: bool = False) -> BlobStore:
        """Make an unopened store on it, which waits for some seconds or, if it is patient, for longer than any test."""


class CoordinationPlace(Protocol):
    """A place for pointers and an election in such a server.

    ``refusals``: how often a store there is asked for a commit while its server is away.
    """

    refusals: int

    def pointers(self) -> AbstractAsyncContextManager[PointerStore]:
        """Make a store on it that waits for a few seconds, open within the block."""

    def election(self, advertise: str, *, lasting: bool) -> Election:
        """Make an unopened candidate. Leadership that is lasting outlives a restart of the server."""


# -- blobs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _S3Place:
    url: str

    def build(self, *, patient: bool = False) -> BlobStore:
        return S3Blobs(self.url, deadline=PATIENT_SECONDS if patient else 3.0)


class _S3:
    def __init__(self, server: SeaweedFS) -> None:
        self._server = server
        self.stop = server.stop
        self.hang = server.process.pause
        self.wake = server.process.resume

    def place(self) -> BlobPlace:
        return _S3Place(self._server.url(s3.BUCKET, f"tests/{secrets.token_hex(8)}"))

    def start(self) -> None:
        if not self._server.process.running:
            self._server.start()


@contextmanager
def _s3(directory: Path) -> Iterator[Server[BlobPlace]]:
    with s3.running(directory) as server:
        yield _S3(server)


@dataclass(frozen=True)
class _HdfsPlace:
    url: str

    def build(self, *, patient: bool = False) -> BlobStore:
        return HdfsBlobs(self.url, deadline=PATIENT_SECONDS if patient else 20.0)


class _Hdfs:
    """Its NameNode is what stops and hangs; what DataNodes do is shown in tests/backends/hdfs."""

    def __init__(self, server: Hdfs) -> None:
        self._server = server
        self.stop = server.namenode.kill
        self.hang = server.namenode.pause
        self.wake = server.namenode.resume

    def place(self) -> BlobPlace:
        return _HdfsPlace(self._server.url(hdfs.fresh_path()))

    def start(self) -> None:
        self._server.start()


@contextmanager
def _hdfs(directory: Path) -> Iterator[Server[BlobPlace]]:
    with hdfs.running(directory) as server:
        yield _Hdfs(server)


# -- pointers and elections --------------------------------------------------------------------------------------------


class _ZooKeeperPlace:
    refusals = 400  # more than kazoo's thread could be woken for without anybody reading it

    def __init__(self, server: ZooKeeperServer) -> None:
        self._address = ZooKeeperAddress.parse(zookeeper_url(server.address, ELECTION_SECONDS))

    @asynccontextmanager
    async def pointers(self) -> AsyncIterator[PointerStore]:
        async with opened_in_zookeeper(self._address, timeout=1.0) as store:
            yield store

    def election(self, advertise: str, *, lasting: bool) -> Election:
        return ZooKeeperElection(self._address, advertise, timeout=60.0 if lasting else 1.0)


class _ZooKeeper:
    def __init__(self, server: ZooKeeperServer) -> None:
        self._server = server
        self.stop = server.kill
        self.hang = server.pause
        self.wake = server.resume

    def place(self) -> CoordinationPlace:
        return _ZooKeeperPlace(self._server)

    def start(self) -> None:
        if not self._server.running:
            self._server.serve()


@contextmanager
def _zookeeper(directory: Path) -> Iterator[Server[CoordinationPlace]]:
    with zookeeper(directory, tick_seconds=ELECTION_SECONDS / 20) as server:
        yield _ZooKeeper(server)


class _KubernetesPlace:
    refusals = 20

    def __init__(self, api: KubernetesApi) -> None:
        self._site = kubernetes.site(api)

    @asynccontextmanager
    async def pointers(self) -> AsyncIterator[PointerStore]:
        async with opened_in_kubernetes(self._site.address(), timeout=5.0) as store:
            yield store

    def election(self, advertise: str, *, lasting: bool) -> Election:
        lease = {"lease_duration": "90", "renew_deadline": "60", "retry_period": "0.5"}
        return KubernetesElection(self._site.address(**(lease if lasting else kubernetes.SHORT)), advertise)


class _Kubernetes:
    """Its API server is what stops and hangs; what etcd does is shown in tests/backends/kubernetes."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self.stop = api.server.kill
        self.hang = api.server.pause
        self.wake = api.server.resume

    def place(self) -> CoordinationPlace:
        return _KubernetesPlace(self._api)

    def start(self) -> None:
        self._api.start()


@contextmanager
def _kubernetes(directory: Path) -> Iterator[Server[CoordinationPlace]]:
    with kubernetes.running(directory) as api:
        yield _Kubernetes(api)


# -- which there are ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Breakable(Generic[P]):
    """A backend whose server can be broken. ``running`` starts one, with its files in a directory."""

    name: str
    running: Callable[[Path], AbstractContextManager[Server[P]]]
    marks: tuple[pytest.MarkDecorator, ...] = ()


def cases(*backends: Breakable[P]) -> list[pytest.ParameterSet]:
    """Make parameters of a fixture of them, each under its name and in its suite."""
    return [pytest.param(backend, id=backend.name, marks=backend.marks) for backend in backends]


BLOB_SERVERS = cases(Breakable("s3", _s3), Breakable("hdfs", _hdfs, (pytest.mark.kubernetes,)))
COORDINATION_SERVERS = cases(
    Breakable("zookeeper", _zookeeper), Breakable("kubernetes", _kubernetes, (pytest.mark.kubernetes,))
)


@contextmanager
def mended(server: S) -> Iterator[S]:
    """Leave the server serving at the end of the block, whatever a test has done to it."""
    try:
        yield server
    finally:
        server.wake()
        server.start()

"""The pairs of backends that the suite runs over. A new pair is added to `DEPLOYMENTS`, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import hdfs_native
import pytest
from kazoo.client import KazooClient

from milepost_backends.contract import BlobStore, Election, PointerStore
from milepost_backends.embedded.pointers import FILE_NAME
from milepost_backends.hdfs.address import parse_address as parse_hdfs_address
from milepost_backends.s3.address import parse_address
from milepost_backends.zookeeper.address import ZooKeeperAddress
from tests.contracts.factories import BLOBS, ELECTIONS, POINTERS
from tests.contracts.places import Backend, Services
from tests.support.servers.kubernetes import without_config_maps
from tests.support.servers.replicas import Backends


@dataclass(frozen=True)
class Coordination:
    """Where pointers stand, and the election that goes with it.

    ``url`` makes of an address what the server's flag takes. ``vanished`` takes the journal away from under a running
    replica, by the means of the real store, and puts it back at the end. ``brings_back``: a leader can do so by itself,
    from memory, and then has.
    """

    pointers: Backend[PointerStore]
    election: Backend[Election]
    url: Callable[[str], str]
    vanished: Callable[[str], AbstractContextManager[None]]
    brings_back: bool = False


@dataclass(frozen=True)
class Storage:
    """Where blobs lie.

    ``url`` makes of an address what the server's flag takes. ``damage`` puts other bytes in place of those of the one
    blob that holds a state, behind the service's back.
    """

    blobs: Backend[BlobStore]
    url: Callable[[str], str]
    damage: Callable[[str, bytes, bytes], None]


@dataclass(frozen=True)
class Deployment:
    """One pair of backends."""

    coordination: Coordination
    storage: Storage

    @property
    def name(self) -> str:
        """The name of the pair, for test ids and directories."""
        return f"{self.coordination.pointers.name}-{self.storage.blobs.name}"

    @property
    def marks(self) -> tuple[pytest.MarkDecorator, ...]:
        """The suite of its scenarios, as either backend says."""
        return self.coordination.pointers.marks or self.storage.blobs.marks

    def fresh(self, directory: Path, services: Services) -> Site:
        """A new, empty site; what it keeps on the local disk lies under ``directory``."""
        places = [directory / "for-pointers", directory / "for-blobs"]
        for place in places:
            place.mkdir(parents=True)
        pointers = self.coordination.pointers.fresh(places[0], services)
        return Site(self, pointers, self.storage.blobs.fresh(places[1], services))


@dataclass(frozen=True)
class Site:
    """Where one pair of backends keeps its things; any number of replicas may share it."""

    deployment: Deployment
    pointers: str
    blobs: str

    def backends(self, advertise: str) -> Backends:
        """The unopened backends of one more replica."""
        election = self.deployment.coordination.election.build(self.pointers, advertise)
        return Backends(self.pointer_store(), election, self.blob_store())

    def pointer_store(self) -> PointerStore:
        """An unopened pointer store."""
        return self.deployment.coordination.pointers.build(self.pointers)

    def blob_store(self) -> BlobStore:
        """An unopened blob store."""
        return self.deployment.storage.blobs.build(self.blobs)

    def vanished(self) -> AbstractContextManager[None]:
        """The journal is gone within the block."""
        return self.deployment.coordination.vanished(self.pointers)

    def damage(self, state: bytes, other: bytes) -> None:
        """Other bytes stand in the one blob that held ``state``."""
        self.deployment.storage.damage(self.blobs, state, other)

    @property
    def urls(self) -> tuple[str, str]:
        """What ``--pointers`` and ``--blobs`` take."""
        return self.deployment.coordination.url(self.pointers), self.deployment.storage.url(self.blobs)


@contextmanager
def _file_deleted(directory: str) -> Generator[None, None, None]:
    """It is not put back: its leader has made it anew."""
    (Path(directory) / FILE_NAME).unlink()
    yield


def _damaged_file(directory: str, state: bytes, other: bytes) -> None:
    (blob,) = [path for path in Path(directory).rglob("*") if path.is_file() and path.read_bytes() == state]
    blob.chmod(0o600)
    blob.write_bytes(other)


def _damaged_object(url: str, state: bytes, other: bytes) -> None:
    address = parse_address(url)
    client = boto3.client("s3", endpoint_url=address.endpoint_url, region_name=address.region)
    place: dict[str, Any] = {"Bucket": address.bucket}
    pages = client.get_paginator("list_objects_v2").paginate(**place, Prefix=address.prefix)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ()) if entry["Size"] == len(state)]
    (key,) = [key for key in keys if client.get_object(**place, Key=key)["Body"].read() == state]
    client.put_object(**place, Key=key, Body=other)
    client.close()


def _damaged_in_hdfs(url: str, state: bytes, other: bytes) -> None:
    address = parse_hdfs_address(url)
    client = hdfs_native.Client(address.file_system)
    found = [file for file in client.list_status(address.root, recursive=True) if file.length == len(state)]
    (path,) = [file.path for file in found if not file.isdir and _read(client, file.path) == state]
    with client.create(path, hdfs_native.WriteOptions(overwrite=True)) as writer:
        writer.write(other)


def _read(client: hdfs_native.Client, path: str) -> bytes:
    with client.read(path) as reader:
        return bytes(reader.read())


@contextmanager
def _journal_deleted(url: str) -> Generator[None, None, None]:
    """It is not put back: its leader has made it anew."""
    address = ZooKeeperAddress.parse(url)
    client = KazooClient(address.hosts)
    client.start(60)
    try:
        client.delete(f"{address.root}/journals/root", recursive=True)
        yield
    finally:
        client.stop()
        client.close()


_POINTERS = {backend.name: backend for backend in POINTERS}
_ELECTIONS = {backend.name: backend for backend in ELECTIONS}
_BLOBS = {backend.name: backend for backend in BLOBS}

_EMBEDDED = Coordination(
    _POINTERS["embedded"], _ELECTIONS["embedded"], "embedded:{}".format, _file_deleted, brings_back=True
)
_ZOOKEEPER = Coordination(_POINTERS["zookeeper"], _ELECTIONS["zookeeper"], str, _journal_deleted, brings_back=True)
_KUBERNETES = Coordination(_POINTERS["kubernetes"], _ELECTIONS["kubernetes"], str, without_config_maps)

_LOCAL = Storage(_BLOBS["local"], "file:{}".format, _damaged_file)
_S3 = Storage(_BLOBS["s3"], str, _damaged_object)
_HDFS = Storage(_BLOBS["hdfs"], str, _damaged_in_hdfs)

DEPLOYMENTS: tuple[Deployment, ...] = (
    Deployment(_EMBEDDED, _LOCAL),
    Deployment(_ZOOKEEPER, _S3),
    Deployment(_ZOOKEEPER, _HDFS),
    Deployment(_KUBERNETES, _S3),
    Deployment(_KUBERNETES, _HDFS),
)

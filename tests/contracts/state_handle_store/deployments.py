"""The pairs of backends that the suite runs over. A new pair is added to `DEPLOYMENTS`, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import hdfs_native
from kazoo.client import KazooClient

from backends.blobs.hdfs_address import parse_address as parse_hdfs_address
from backends.blobs.s3_address import parse_address
from backends.contract import BlobStore, Election, PointerStore
from backends.pointers.embedded import FILE_NAME
from backends.zookeeper.address import Address
from tests.contracts.factories import BLOBS, ELECTIONS, POINTERS
from tests.contracts.places import Backend, Services
from tests.support.kubernetes import without_config_maps
from tests.support.replicas import Backends


@dataclass(frozen=True)
class Deployment:
    """One pair of backends.

    ``damage`` puts other bytes in place of those of the one blob that holds a state, behind the service's back.
    ``pointers_url`` and ``blobs_url`` make of an address what the server's flags take. ``vanished`` takes the journal
    away from under a running replica, by the means of the real store, and puts it back at the end.
    """

    pointers: Backend[PointerStore]
    election: Backend[Election]
    blobs: Backend[BlobStore]
    pointers_url: Callable[[str], str]
    blobs_url: Callable[[str], str]
    vanished: Callable[[str], AbstractContextManager[None]]
    damage: Callable[[str, bytes, bytes], None]

    @property
    def name(self) -> str:
        """For test ids and directories."""
        return f"{self.pointers.name}-{self.blobs.name}"

    def fresh(self, directory: Path, services: Services) -> Site:
        """A new, empty site; what it keeps on the local disk lies under ``directory``."""
        places = [directory / "for-pointers", directory / "for-blobs"]
        for place in places:
            place.mkdir(parents=True)
        return Site(self, self.pointers.fresh(places[0], services), self.blobs.fresh(places[1], services))


@dataclass(frozen=True)
class Site:
    """Where one pair of backends keeps its things; any number of replicas may share it."""

    deployment: Deployment
    pointers: str
    blobs: str

    def backends(self, advertise: str) -> Backends:
        """The unopened backends of one more replica."""
        made = self.deployment
        return Backends(self.pointer_store(), made.election.build(self.pointers, advertise), self.blob_store())

    def pointer_store(self) -> PointerStore:
        """An unopened pointer store."""
        return self.deployment.pointers.build(self.pointers)

    def blob_store(self) -> BlobStore:
        """An unopened blob store."""
        return self.deployment.blobs.build(self.blobs)

    def vanished(self) -> AbstractContextManager[None]:
        """The journal is gone within the block."""
        return self.deployment.vanished(self.pointers)

    def damage(self, state: bytes, other: bytes) -> None:
        """Other bytes stand in the one blob that held ``state``."""
        self.deployment.damage(self.blobs, state, other)

    @property
    def urls(self) -> tuple[str, str]:
        """What ``--pointers`` and ``--blobs`` take."""
        return self.deployment.pointers_url(self.pointers), self.deployment.blobs_url(self.blobs)


@contextmanager
def _file_moved_away(directory: str) -> Generator[None, None, None]:
    path = Path(directory) / FILE_NAME
    away = path.with_suffix(".away")
    path.rename(away)
    try:
        yield
    finally:
        away.rename(path)


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
    address = Address.parse(url)
    client = KazooClient(address.hosts)
    client.start(60)
    place = f"{address.root}/journals/root"
    away = _below(client, place)
    client.delete(place, recursive=True)
    try:
        yield
    finally:
        for path, value in away.items():
            client.create(path, value)
        client.stop()
        client.close()


def _below(client: KazooClient, path: str) -> dict[str, bytes]:
    """What stands in a znode and in all below it, from the top."""
    found = {path: client.get(path)[0]}
    for name in client.get_children(path):
        found |= _below(client, f"{path}/{name}")
    return found


DEPLOYMENTS: tuple[Deployment, ...] = (
    Deployment(
        pointers={backend.name: backend for backend in POINTERS}["embedded"],
        election={backend.name: backend for backend in ELECTIONS}["embedded"],
        blobs={backend.name: backend for backend in BLOBS}["local"],
        pointers_url=lambda address: f"embedded:{address}",
        blobs_url=lambda address: f"file:{address}",
        vanished=_file_moved_away,
        damage=_damaged_file,
    ),
    Deployment(
        pointers={backend.name: backend for backend in POINTERS}["zookeeper"],
        election={backend.name: backend for backend in ELECTIONS}["zookeeper"],
        blobs={backend.name: backend for backend in BLOBS}["s3"],
        pointers_url=str,
        blobs_url=str,
        vanished=_journal_deleted,
        damage=_damaged_object,
    ),
    Deployment(
        pointers={backend.name: backend for backend in POINTERS}["kubernetes"],
        election={backend.name: backend for backend in ELECTIONS}["kubernetes"],
        blobs={backend.name: backend for backend in BLOBS}["hdfs"],
        pointers_url=str,
        blobs_url=str,
        vanished=without_config_maps,
        damage=_damaged_in_hdfs,
    ),
)

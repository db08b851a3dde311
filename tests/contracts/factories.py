"""The backends that the suites run over. A new one is added here, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from backends.blobs.hdfs import HdfsBlobs
from backends.blobs.local import LocalBlobs
from backends.blobs.s3 import S3Blobs
from backends.contract import BlobStore, Election, PointerStore
from backends.elections.embedded import EmbeddedElection
from backends.elections.kubernetes import KubernetesElection
from backends.elections.zookeeper import ZooKeeperElection
from backends.kubernetes.address import Address as KubernetesAddress
from backends.pointers.embedded import EmbeddedPointers
from backends.pointers.kubernetes import KubernetesPointers
from backends.pointers.zookeeper import ZooKeeperPointers
from backends.zookeeper.address import Address
from tests.contracts.places import Backend, Services
from tests.support import hdfs, kubernetes, zookeeper
from tests.support.s3 import fresh_url


def _directory(tmp_path: Path, services: Services) -> str:
    del services
    return str(tmp_path / "place")


POINTERS: tuple[Backend[PointerStore], ...] = (
    Backend("embedded", _directory, lambda address: EmbeddedPointers(Path(address))),
    Backend("zookeeper", zookeeper.fresh_url, lambda address: ZooKeeperPointers(Address.parse(address))),
    Backend("kubernetes", kubernetes.fresh_url, lambda address: KubernetesPointers(KubernetesAddress.parse(address))),
)
ELECTIONS: tuple[Backend[Election], ...] = (
    Backend("embedded", _directory, lambda address, advertise: EmbeddedElection(Path(address), advertise)),
    Backend(
        "zookeeper",
        zookeeper.fresh_short_url,
        lambda address, advertise: ZooKeeperElection(Address.parse(address), advertise),
    ),
    Backend(
        "kubernetes",
        kubernetes.fresh_short_url,
        lambda address, advertise: KubernetesElection(KubernetesAddress.parse(address), advertise),
    ),
)
BLOBS: tuple[Backend[BlobStore], ...] = (
    Backend("local", _directory, lambda address: LocalBlobs(Path(address))),
    Backend("s3", fresh_url, S3Blobs),
    Backend("hdfs", hdfs.fresh_url, HdfsBlobs),
)


def pointer_store(name: str, address: str) -> PointerStore:
    """A store on an existing place, for processes that were told its address."""
    return {backend.name: backend for backend in POINTERS}[name].build(address)


def election(name: str, address: str, advertise: str) -> Election:
    """A candidate in an existing place, for processes that were told its address."""
    return {backend.name: backend for backend in ELECTIONS}[name].build(address, advertise)


def blob_store(name: str, address: str) -> BlobStore:
    """A store on an existing place, for processes that were told its address."""
    return {backend.name: backend for backend in BLOBS}[name].build(address)

"""The backends that the suites run over. A new one is added here, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost_backends.contract import BlobStore, Election, PointersSettings, PointerStore
from milepost_backends.embedded.election import EmbeddedElection
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_backends.hdfs.blobs import HdfsBlobs
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.election.election import KubernetesElection
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.registry import make_pointers
from milepost_backends.s3.blobs import S3Blobs
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.election.election import ZooKeeperElection
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from tests.contracts.places import Backend, Services
from tests.support.distribution import install, on_the_path
from tests.support.servers import hdfs, kubernetes, zookeeper
from tests.support.servers.s3 import fresh_url

_IN_TEST_KUBERNETES = (pytest.mark.kubernetes,)


def _directory(tmp_path: Path, services: Services) -> str:
    del services
    return str(tmp_path / "place")


def _installed(tmp_path: Path, services: Services) -> str:
    """A directory with a distribution in it that adds a backend; it is the name of the place as well."""
    del services
    install(tmp_path, "memory = tests.backends.memory_backend:BACKEND")
    return str(tmp_path)


def _of_another_distribution(address: str, advertise: str = "") -> tuple[PointerStore, Election]:
    """What the entry point of that distribution makes, found as the server finds it."""
    with on_the_path(Path(address)):
        return make_pointers(f"memory:{address}", PointersSettings(advertise))


POINTERS: tuple[Backend[PointerStore], ...] = (
    Backend("embedded", _directory, lambda address: EmbeddedPointers(Path(address))),
    Backend("zookeeper", zookeeper.fresh_url, lambda address: ZooKeeperPointers(ZooKeeperAddress.parse(address))),
    Backend(
        "kubernetes",
        kubernetes.fresh_url,
        lambda address: KubernetesPointers(KubernetesAddress.parse(address)),
        _IN_TEST_KUBERNETES,
    ),
    Backend("memory", _installed, lambda address: _of_another_distribution(address)[0], shared=False),
)
ELECTIONS: tuple[Backend[Election], ...] = (
    Backend("embedded", _directory, lambda address, advertise: EmbeddedElection(Path(address), advertise)),
    Backend(
        "zookeeper",
        zookeeper.fresh_short_url,
        lambda address, advertise: ZooKeeperElection(ZooKeeperAddress.parse(address), advertise),
    ),
    Backend(
        "kubernetes",
        kubernetes.fresh_short_url,
        lambda address, advertise: KubernetesElection(KubernetesAddress.parse(address), advertise),
        _IN_TEST_KUBERNETES,
    ),
    Backend(
        "memory",
        _installed,
        lambda address, advertise: _of_another_distribution(address, advertise)[1],
        shared=False,
    ),
)
BLOBS: tuple[Backend[BlobStore], ...] = (
    Backend("local", _directory, lambda address: LocalBlobs(Path(address))),
    Backend("s3", fresh_url, S3Blobs),
    Backend("hdfs", hdfs.fresh_url, HdfsBlobs, _IN_TEST_KUBERNETES),
)


def pointer_store(name: str, address: str) -> PointerStore:
    """Build a store on an existing place, for processes that were told its address."""
    return {backend.name: backend for backend in POINTERS}[name].build(address)


def election(name: str, address: str, advertise: str) -> Election:
    """Build a candidate in an existing place, for processes that were told its address."""
    return {backend.name: backend for backend in ELECTIONS}[name].build(address, advertise)


def blob_store(name: str, address: str) -> BlobStore:
    """Build a store on an existing place, for processes that were told its address."""
    return {backend.name: backend for backend in BLOBS}[name].build(address)

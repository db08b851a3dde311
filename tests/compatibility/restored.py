"""Puts what an earlier version stored into storage of today, and says how a replica on it is built."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from milepost_backends.kubernetes.election.election import KubernetesElection
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.election.election import ZooKeeperElection
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from tests.contracts.places import Services
from tests.support.servers import kubernetes, zookeeper
from tests.support.servers.replicas import Backends, Build, embedded

STORED = Path(__file__).parent / "stored"

Restore = Callable[[Path, Services], Build]


def into_embedded(directory: Path, services: Services) -> Build:
    """Copy the directories as they were."""
    del services
    shutil.copytree(STORED / "embedded" / "pointers", directory / "pointers")
    shutil.copytree(STORED / "embedded" / "blobs", directory / "blobs")
    return embedded(directory)


def into_zookeeper(directory: Path, services: Services) -> Build:
    """Make the znodes anew below an address of their own."""
    address = ZooKeeperAddress.parse(zookeeper.fresh_url(directory, services))
    with zookeeper.visitor(address.hosts) as visitor:
        for node in _read("zookeeper", "znodes"):
            visitor.create(address.root + node["path"], b64decode(node["data"]), makepath=True)
    blobs = _blobs("zookeeper", directory)

    def build(advertise: str) -> Backends:
        return Backends(ZooKeeperPointers(address), ZooKeeperElection(address, advertise), LocalBlobs(blobs))

    return build


def into_kubernetes(directory: Path, services: Services) -> Build:
    """Make the ConfigMaps anew in a namespace of their own."""
    site = kubernetes.site(kubernetes.shared_api(services))
    for config_map in _read("kubernetes", "configmaps"):
        site.api.admin.ask("POST", f"/api/v1/namespaces/{site.namespace}/configmaps", config_map)
    blobs, address = _blobs("kubernetes", directory), site.address(**kubernetes.LONG)

    def build(advertise: str) -> Backends:
        return Backends(KubernetesPointers(address), KubernetesElection(address, advertise), LocalBlobs(blobs))

    return build


def observed(name: str) -> Any:
    """What the earlier version answered."""
    return _read(name, "observed")


def _read(name: str, file: str) -> Any:
    return json.loads((STORED / name / f"{file}.json").read_text())


def _blobs(name: str, directory: Path) -> Path:
    blobs = directory / "blobs"
    for key, content in _read(name, "blobs").items():
        (blobs / key).parent.mkdir(parents=True, exist_ok=True)
        (blobs / key).write_bytes(b64decode(content))
    return blobs

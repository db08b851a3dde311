"""A place in the session's ZooKeeper for each test, and a client that goes there behind our back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from milepost_backends.zookeeper.address import ZooKeeperAddress
from tests.contracts.places import Services
from tests.support.servers import zookeeper


@pytest.fixture
def zookeeper_address(tmp_path: Path, services: Services) -> ZooKeeperAddress:
    """A fresh place."""
    return ZooKeeperAddress.parse(zookeeper.fresh_url(tmp_path, services))


@pytest.fixture
def visitor(zookeeper_address: ZooKeeperAddress) -> Iterator[KazooClient]:
    """A plain client."""
    with zookeeper.visitor(zookeeper_address.hosts) as client:
        yield client

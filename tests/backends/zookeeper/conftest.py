"""A ZooKeeper of one test's own, to be stopped and paused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.zookeeper import ZooKeeperServer, zookeeper


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """It serves."""
    with zookeeper(tmp_path / "zookeeper") as running:
        yield running

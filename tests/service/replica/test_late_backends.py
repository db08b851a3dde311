"""A replica that starts before what it stands on, and one that loses it for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.server import ServerProcess
from testbed.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.later


def test_a_replica_that_starts_before_zookeeper_leads_once_that_is_there(tmp_path: Path) -> None:
    zookeeper = ZooKeeperServer(tmp_path / "zookeeper", tick_seconds=0.5)
    pointers = f"zookeeper://{zookeeper.address}/milepost?session_timeout=1"
    try:
        with ServerProcess(tmp_path, pointers=pointers) as server:
            server.start(until="/livez")
            server.wait_for_log(f"cannot reach ZooKeeper at {zookeeper.address}")
            assert server.status_of("/readyz") == 503
            assert server.status_of("/leader") == 503
            zookeeper.serve()
            server.wait_for("/leader")
            assert "the backends are open now" in server.logged()
            zookeeper.kill()
            server.wait_for("/leader", 503)
            server.wait_for("/readyz", 503)
            assert server.status_of("/livez") == 200
            zookeeper.serve()
            server.wait_for("/leader")
            assert server.stop() == 0
    finally:
        zookeeper.kill()


def test_what_waiting_does_not_help_against_ends_the_start(tmp_path: Path) -> None:
    pointers = f"zookeeper://127.0.0.1:1/milepost?credentials_file={tmp_path / 'absent'}"
    with ServerProcess(tmp_path, pointers=pointers) as server:
        server.start(until=None)
        assert server.wait() == 2
        assert "cannot read the credentials" in server.logged()


def test_a_replica_that_waits_for_zookeeper_stops_when_told_to(tmp_path: Path) -> None:
    zookeeper = ZooKeeperServer(tmp_path / "zookeeper")
    with ServerProcess(tmp_path, pointers=f"zookeeper://{zookeeper.address}/milepost?session_timeout=1") as server:
        server.start(until="/livez")
        assert server.stop() == 0

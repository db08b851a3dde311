"""ZooKeeper as a part: starts, keeps its data, and goes on in an ensemble without its leader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from testbed.zookeeper import ZooKeeperServer, ensemble, zookeeper


@contextmanager
def client(hosts: str) -> Iterator[KazooClient]:
    opened = KazooClient(hosts, timeout=10.0)
    opened.start(60)
    try:
        yield opened
    finally:
        opened.stop()
        opened.close()


def test_a_server_keeps_its_data_and_its_port(tmp_path: Path) -> None:
    with zookeeper(tmp_path) as server:
        assert server.mode() == "standalone"
        with client(server.address) as writer:
            writer.create("/kept", b"value")
        server.kill()
        assert server.mode() is None
        server.serve()
        with client(server.address) as reader:
            assert reader.get("/kept")[0] == b"value"
    assert not server.running


def test_two_servers_are_apart(tmp_path: Path) -> None:
    with zookeeper(tmp_path / "one") as one, zookeeper(tmp_path / "other") as other:
        with client(one.address) as writer:
            writer.create("/mine")
        with client(other.address) as reader:
            assert reader.exists("/mine") is None


def test_an_ensemble_goes_on_without_its_leader(tmp_path: Path) -> None:
    with ensemble(tmp_path) as servers:
        modes = sorted(str(member.mode()) for member in servers.members)
        assert modes == ["follower", "follower", "leader"]
        leader = servers.leader()
        with client(servers.hosts) as writer:
            writer.create("/kept", b"value")
        leader.kill()

        def succeeded() -> bool:
            return any(member.mode() == "leader" for member in servers.members)

        survivor = next(member for member in servers.members if member.running)
        survivor.wait_until(succeeded, "follows no new leader")
        with client(servers.hosts) as reader:
            assert reader.get("/kept")[0] == b"value"
        servers.serve()
        assert isinstance(leader, ZooKeeperServer)
        assert leader.mode() == "follower"

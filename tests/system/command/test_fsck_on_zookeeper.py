"""``milepost fsck`` on a service whose znodes somebody damaged while no leader looked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

import milepost
from milepost.cli.fsck import Kind, Repair
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout
from testbed.server import ServerProcess
from tests.contracts.journals import ROOT
from tests.contracts.places import Services
from tests.support.servers import zookeeper
from tests.system.command.conftest import Command

STORE, UNTOUCHED = "flights", "airports"
STATES = {"flipped": b"1", "short": b"22", "emptied": b"333", "intact": b"4444"}


class Znodes:
    """The records of one server, as they lie in ZooKeeper."""

    def __init__(self, visitor: KazooClient, pointers: str) -> None:
        self._visitor = visitor
        self._layout = ZnodeLayout(ZooKeeperAddress.parse(pointers).root, ROOT)

    def read(self, name: str) -> bytes:
        """The record of a handle."""
        return bytes(self._visitor.get(self._path(name))[0])

    def write(self, name: str, content: bytes) -> None:
        """Put something in its place, behind the leader's back."""
        self._visitor.set(self._path(name), content)

    def delete(self, name: str) -> None:
        """Let there be none."""
        self._visitor.delete(self._path(name))

    def _path(self, name: str) -> str:
        return self._layout.record(f"stores/{STORE}/handles/{name}")


@pytest.fixture
def server(services: Services, tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, pointers=zookeeper.fresh_url(tmp_path, services)) as process:
        process.start()
        with milepost.Client(process.url) as client, client.session(ttl=600) as session:
            for name, state in STATES.items():
                session.store(STORE).add_and_lock(name, state)
            session.store(UNTOUCHED).add_and_lock("latest", b"state")
        yield process


@pytest.fixture
def znodes(services: Services, server: ServerProcess) -> Iterator[Znodes]:
    with zookeeper.visitor(zookeeper.shared_address(services)) as visitor:
        yield Znodes(visitor, server.pointers)


def found(command: Command, server: ServerProcess, *arguments: str) -> list[dict[str, Any]]:
    """What is named; the exit code says whether there is anything."""
    ended = command("fsck", "--json", "--url", server.url, *arguments)
    named: list[dict[str, Any]] = json.loads(ended.stdout)
    assert ended.returncode == bool(named), ended.stderr
    return named


def test_damaged_znodes_are_named_and_removed_on_demand(
    command: Command, server: ServerProcess, znodes: Znodes
) -> None:
    assert found(command, server, "--deep") == []
    server.stop()
    before = znodes.read("flipped")
    znodes.write("flipped", before[:-3] + bytes([before[-3] ^ 1]) + before[-2:])
    znodes.write("short", znodes.read("short")[:-1])
    znodes.write("emptied", b"")
    server.start()

    named = found(command, server, "--deep")
    of_records = {each["name"]: (each["kind"], each["repair"]) for each in named if each["store"]}
    assert of_records == dict.fromkeys(("flipped", "short", "emptied"), (Kind.RECORD.value, Repair.REMOVE.value))
    assert {each["store"] for each in named} == {STORE, None} or {each["store"] for each in named} == {STORE, ""}
    of_replica = [each["reason"] for each in named if each["kind"] == Kind.SERVICE.value]
    assert all(any(f"handles/{name}" in reason for reason in of_replica) for name in of_records)

    repaired = command("fsck", "--repair", "--yes", "--url", server.url)
    assert repaired.returncode == 1, repaired.stderr
    assert all(f"{name} of {STORE} is removed" in repaired.stderr for name in of_records)
    assert found(command, server, "--deep") == []
    with milepost.Client(server.url) as client:
        store = client.store(STORE)
        assert {handle.name: store.read(handle.name) for handle in store.get_all_handles()} == {"intact": b"4444"}
        assert client.store(UNTOUCHED).read("latest") == b"state"


def test_a_record_that_was_put_back_is_whole_again(command: Command, server: ServerProcess, znodes: Znodes) -> None:
    kept = znodes.read("short")
    server.stop()
    znodes.write("short", kept[:-1])
    server.start()
    assert [each["name"] for each in found(command, server) if each["store"]] == ["short"]
    server.stop()
    znodes.write("short", kept)
    server.start()
    assert found(command, server, "--deep") == []


def test_where_a_znode_is_gone_nobody_leads_and_fsck_says_that_it_cannot_look(
    command: Command, server: ServerProcess, znodes: Znodes
) -> None:
    """A record that is missing is a loss that its owner has to accept, so no command gets past it."""
    server.stop()
    znodes.delete("short")
    server.start(until="/livez")
    ended = command("fsck", "--repair", "--yes", "--timeout", "2", "--url", server.url)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "Unavailable" in ended.stderr

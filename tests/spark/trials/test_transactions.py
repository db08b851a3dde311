"""The transaction logs of a real ZooKeeper tell all that was ever written, also what was overwritten or deleted."""

from __future__ import annotations

from pathlib import Path

import httpx

from testbed.server import ServerProcess
from testbed.zookeeper import ZooKeeperServer
from tests.spark.trials.transactions import Transactions
from tests.wire.support.api import Api, connect
from tests.wire.webhdfs.hadoop import Tree, refused


def test_what_was_written_is_in_the_logs(tmp_path: Path) -> None:
    zookeeper = ZooKeeperServer(tmp_path / "zookeeper", tick_seconds=0.2)
    try:
        zookeeper.serve()
        with (
            ServerProcess(tmp_path, pointers=f"zookeeper://{zookeeper.address}/milepost") as server,
            connect(server.start().url) as http,
        ):
            _write(http)
    finally:
        zookeeper.kill()
    journal = Transactions([tmp_path / "zookeeper"])
    assert {birth.path: birth.epoch for birth in journal.births("flights")} == {"first": 1, "second": 2}
    assert sorted(journal.grants("flights")) == [1, 2]
    assert [bytes(entry.data or b"") for path, entry in journal.entries("flights") if path == "second"][-1] == b"two"
    assert journal.late("flights") == []


def _write(http: httpx.Client) -> None:
    api = Api.on(http, "flights")
    old = Tree(http, "flights", api.campaign().json()["epoch"])
    assert old.create("first", b"one").status_code == 201
    assert old.delete("first").status_code == 200
    api.resign()
    new = old.under(api.other().campaign().json()["epoch"])
    assert new.create("second", b"two").status_code == 201
    refused(old.create("third", b"x"), 403, "AccessControlException")

"""NameNodes may take connections and never say a word: that costs little, and others are asked.

They are made up: a real one that hangs is in test_name_service, but here are several at once, and connections are
counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from milepost_backends.contract import StorageUnavailable
from milepost_backends.hdfs.address import parse_address
from milepost_backends.hdfs.blobs import HdfsBlobs
from milepost_backends.hdfs.connection import HdfsConnection
from testbed.hadoop.programs import configure
from tests.support.network.listener import Listener, listening
from tests.support.servers.hdfs import alone

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]


class Silent(Listener):
    """Takes connections, and never says a word on them."""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader, writer
        await asyncio.Event().wait()


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Silent, Silent]]:
    """Two under one name, which is that of the default file system."""
    alone(monkeypatch)
    async with listening(Silent()) as first, listening(Silent()) as second:
        settings = {
            "fs.defaultFS": "hdfs://pair",
            "dfs.nameservices": "pair",
            "dfs.ha.namenodes.pair": "nn1,nn2",
            "dfs.namenode.rpc-address.pair.nn1": first.address,
            "dfs.namenode.rpc-address.pair.nn2": second.address,
        }
        configure(tmp_path, settings)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        yield first, second


@pytest.mark.parametrize("url", ["hdfs://pair/m", "hdfs:///m"])
async def test_name_nodes_that_hang_take_turns(pair: tuple[Silent, Silent], url: str) -> None:
    connection = HdfsConnection(parse_address(url), deadline=0.5)
    for _ in range(3):
        with pytest.raises(StorageUnavailable):
            await connection.status("/m/x")
    assert all(server.accepted for server in pair)


async def test_a_caller_who_is_less_patient_is_enough_to_find_out(pair: tuple[Silent, Silent]) -> None:
    connection = HdfsConnection(parse_address("hdfs://pair/m"), deadline=2.0)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.status("/m/x"), 1.5)
    assert all(server.accepted for server in pair)


async def test_one_that_hangs_long_does_not_get_ever_more_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a client with threads of its own."""
    alone(monkeypatch)
    async with listening(Silent()) as server:
        store = HdfsBlobs(f"hdfs://{server.address}/m", deadline=0.1)
        for _ in range(40):
            with pytest.raises(StorageUnavailable):
                await store.open()
        assert 1 <= server.accepted <= 9
        await store.close()

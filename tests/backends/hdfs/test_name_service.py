"""A name service with two NameNodes, of which one is active: found by HADOOP_CONF_DIR, and not lost with either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost_backends.contract import StorageUnavailable
from milepost_backends.hdfs.blobs import HdfsBlobs
from milepost_server.compose import ReplicaConfig, open_replica
from milepost_server.replica.settings import Settings
from testbed.hadoop.pair import HdfsPair, hdfs_pair
from tests.contracts.streams import is_missing, keys, read, stream
from tests.support.servers.hdfs import alone
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[HdfsPair]:
    """The pair, and its configuration where clients look for it."""
    alone(monkeypatch)
    with hdfs_pair(tmp_path_factory.mktemp("hdfs")) as started:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(started.client_configuration))
        yield started


@pytest.mark.parametrize("authority", ["pair", ""], ids=["by its name", "by default"])
async def test_the_store_goes_on_with_whichever_name_node_is_active(
    pair: HdfsPair, tmp_path: Path, authority: str
) -> None:
    url = f"hdfs://{authority}/milepost/blobs"
    store = HdfsBlobs(url, deadline=3.0)
    await store.open()
    await store.put("a/first", stream(b"first"))

    pair.namenodes["nn1"].kill()
    with pytest.raises(StorageUnavailable):
        await store.put("a/between", stream(b"x"))
    pair.activate("nn2")
    assert await read(store, "a/first") == b"first"
    assert await is_missing(store, "a/between")
    await store.put("a/second", stream(b"second"))

    pair.restart("nn1")
    later = HdfsBlobs(url, deadline=3.0)  # which asks the one in standby first
    await later.open()
    deployment = ReplicaConfig(f"embedded:{tmp_path}", url, "http://127.0.0.1:1", "reader")
    reader = open_replica(deployment, Settings(blob_seconds=6.0)).blobs  # as patient as in a replica, in proportion
    await reader.open()
    await later.put("a/third", stream(b"third"))

    pair.namenodes["nn2"].pause()
    pair.activate("nn1")

    async def found() -> bool:
        try:
            return await read(reader, "a/third") == b"third"
        except StorageUnavailable:
            return False

    await until(found)
    assert await keys(reader) == ["a/first", "a/second", "a/third"]
    for opened in (reader, later, store):
        await opened.close()

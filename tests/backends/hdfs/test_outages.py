"""DataNodes and the NameNode die, hang and come back under a store that stays open.

(That nothing else goes wrong where the NameNode stops or hangs is shown in `tests.contracts.test_blobs_outages`.)
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from milepost_backends.contract import StorageUnavailable
from milepost_backends.hdfs.blobs import HdfsBlobs
from milepost_server.compose import ReplicaConfig, open_replica
from milepost_server.replica.settings import Settings
from testbed.hadoop.hdfs import Hdfs
from tests.contracts.streams import is_missing, is_unavailable, keys, read, stream
from tests.support.servers.hdfs import fresh_path, running

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

MIB = 1024 * 1024
WHOLE = os.urandom(24 * MIB)


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with running(tmp_path_factory.mktemp("hdfs"), datanodes=3) as started:
        yield started


@pytest.fixture
def cluster(_cluster: Hdfs) -> Hdfs:
    """One NameNode and three DataNodes that may be stopped, all of them up."""
    return _cluster.start()


@pytest.fixture
async def store(cluster: Hdfs) -> AsyncIterator[HdfsBlobs]:
    """A store that keeps each block twice."""
    opened = HdfsBlobs(cluster.url(fresh_path(), replication=2), deadline=20.0)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def single(cluster: Hdfs) -> AsyncIterator[HdfsBlobs]:
    """A store that keeps each block once."""
    opened = HdfsBlobs(cluster.url(fresh_path(), replication=1), deadline=20.0)
    await opened.open()
    yield opened
    await opened.close()


async def in_pieces(whole: bytes, at: dict[int, object]) -> AsyncIterator[bytes]:
    """Give the bytes megabyte by megabyte, and call what ``at`` names for a number before that megabyte."""
    for number in range(len(whole) // MIB):
        if number in at:
            act = at[number]
            assert callable(act)
            act()
        yield whole[number * MIB : (number + 1) * MIB]


async def test_reading_goes_on_when_a_data_node_dies(cluster: Hdfs, store: HdfsBlobs) -> None:
    await store.put("blob", stream(WHOLE))
    for victim in cluster.datanodes:
        got = b""
        async for chunk in store.get("blob"):
            got += chunk
            if len(got) == 5 * MIB:
                victim.kill()
        assert got == WHOLE
        cluster.start()


async def test_a_blob_whose_only_data_node_is_gone_is_an_outage(cluster: Hdfs, single: HdfsBlobs) -> None:
    await single.put("blob", stream(WHOLE))
    for victim in cluster.datanodes:
        victim.kill()
    chunks = single.get("blob")
    with pytest.raises(StorageUnavailable, match=r"cannot read a blob: .*DataNode"):
        await anext(chunks)
    assert await single.size("blob") == len(WHOLE)
    assert await keys(single) == ["blob"]
    assert await is_unavailable(single.put("another", stream(b"x")))
    cluster.start()
    assert await read(single, "blob") == WHOLE
    assert await is_missing(single, "another")
    await single.put("another", stream(b"x"))


async def test_a_block_is_whole_though_a_data_node_dies_while_it_is_written(cluster: Hdfs, store: HdfsBlobs) -> None:
    """The rest of it goes to other DataNodes. So does a blob that is begun before the NameNode knows of the death."""
    whole = WHOLE[: 3 * MIB]
    for number, victim in enumerate(cluster.datanodes):
        assert await store.put(f"{number}/during", in_pieces(whole, {2: victim.kill})) == len(whole)
        assert await store.put(f"{number}/after", stream(b"x" * MIB)) == MIB
        cluster.start()
        assert await read(store, f"{number}/during") == whole
        assert await read(store, f"{number}/after") == b"x" * MIB


async def test_a_blob_is_whole_or_not_there_when_a_data_node_dies_between_its_blocks(
    cluster: Hdfs, store: HdfsBlobs
) -> None:
    """The client gives up where the NameNode, not knowing yet, sends it to the dead one for the next block."""
    try:
        await store.put("blob", in_pieces(WHOLE, {6: cluster.datanodes[0].kill}))
    except StorageUnavailable:
        assert await is_missing(store, "blob")
        cluster.start()
        await store.put("blob", stream(WHOLE))
    cluster.start()
    assert await read(store, "blob") == WHOLE


async def test_a_blob_is_whole_or_not_there_when_all_data_nodes_die_while_it_is_written(
    cluster: Hdfs, store: HdfsBlobs
) -> None:
    def kill() -> None:
        for victim in cluster.datanodes:
            victim.kill()

    assert await is_unavailable(store.put("blob", in_pieces(WHOLE, {6: kill})))
    assert await is_missing(store, "blob")
    cluster.start()
    assert await store.put("blob", stream(WHOLE)) == len(WHOLE)
    assert await read(store, "blob") == WHOLE


async def test_a_name_node_that_restarts_while_a_blob_is_read_and_another_written(
    cluster: Hdfs, store: HdfsBlobs
) -> None:
    """What is open goes on with the DataNodes; only what has to ask the NameNode meanwhile fails."""

    def restart() -> None:
        cluster.namenode.kill()
        cluster.start()

    await store.put("blob", stream(WHOLE))
    chunks = store.get("blob")
    got = await anext(chunks)
    assert await store.put("written", in_pieces(WHOLE, {3: restart})) == len(WHOLE)
    async for chunk in chunks:
        got += chunk
    assert got == WHOLE
    assert await read(store, "written") == WHOLE


async def test_a_name_node_that_dies_while_a_blob_is_written(cluster: Hdfs, store: HdfsBlobs) -> None:
    assert await is_unavailable(store.put("blob", in_pieces(WHOLE, {3: cluster.namenode.kill})))
    cluster.start()
    assert await is_missing(store, "blob")


async def test_a_data_node_that_hangs(cluster: Hdfs, tmp_path: Path) -> None:
    """A read asks it in vain, perhaps more than once, and then another one, before the replica's own timeout ends."""
    url = cluster.url(fresh_path(), replication=2)
    replica = open_replica(
        ReplicaConfig(f"embedded:{tmp_path}", url, "http://127.0.0.1:1", "reader"), Settings(blob_seconds=9.0)
    )
    store = replica.blobs
    await store.open()
    await store.put("kept", stream(WHOLE))
    for victim in cluster.datanodes:
        victim.pause()
        try:
            async with asyncio.timeout(60):
                assert await read(store, "kept") == WHOLE
        finally:
            victim.resume()
    await store.close()

"""A blob comes out of HDFS whole or with an error, also where somebody changes files behind our back."""

from __future__ import annotations

import pytest

from milepost_backends.contract import BlobMissing, BlobTruncated, StorageUnavailable
from milepost_backends.hdfs.blobs import HdfsBlobs
from tests.contracts.streams import keys, read, stream
from tests.support.network.rpc_relay import Loss, Relay
from tests.support.servers.hdfs import HdfsPlace
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

MIB = 1024 * 1024
LAST_BLOCK = 1_234_567
WHOLE = bytes(range(256)) * 4096 * 12 + b"z" * LAST_BLOCK


async def test_a_directory_is_no_blob(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    hdfs.client.mkdirs(hdfs.at("empty"))
    hdfs.write("full/blob", b"x")
    for key in ("empty", "full"):
        with pytest.raises(BlobMissing):
            await hdfs_store.size(key)
        with pytest.raises(BlobMissing):
            await read(hdfs_store, key)
        await hdfs_store.delete(key)
    assert await keys(hdfs_store) == ["full/blob"]


async def test_a_directory_that_is_gone_is_an_outage_and_no_lack_of_blobs(
    hdfs: HdfsPlace, hdfs_store: HdfsBlobs
) -> None:
    await hdfs_store.put("a/blob", stream(b"x"))
    hdfs.client.delete(f"/{hdfs.path}", recursive=True)
    with pytest.raises(StorageUnavailable, match="does not exist any more"):
        await hdfs_store.size("a/blob")
    with pytest.raises(StorageUnavailable, match="does not exist any more"):
        await read(hdfs_store, "a/blob")


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "deleted"])
async def test_a_blob_that_is_taken_away_while_it_is_read(
    hdfs: HdfsPlace, hdfs_store: HdfsBlobs, replaced: bool
) -> None:
    """What must not come is a mixture, or less than announced."""
    await hdfs_store.put("blob", stream(WHOLE))
    chunks = hdfs_store.get("blob")
    got = await anext(chunks)
    if replaced:
        hdfs.write("blob", b"y" * MIB)
    else:
        hdfs.client.delete(hdfs.at("blob"))

    async def gone() -> bool:
        try:
            blocks = list(hdfs.server.datanodes[0].data.rglob("blk_*"))
            return all(block.stat().st_size != LAST_BLOCK for block in blocks)
        except FileNotFoundError:  # one of them, at this moment
            return False

    await until(gone)
    with pytest.raises(BlobTruncated, match="was replaced" if replaced else "was deleted"):
        await anext(chunks)
    assert WHOLE.startswith(got)


async def test_reading_goes_on_over_a_broken_connection(hdfs_behind: tuple[HdfsBlobs, Relay]) -> None:
    store, relay = hdfs_behind
    await store.put("a/blob", stream(WHOLE))
    for method in ("getBlockLocations", "getFileInfo", "getListing"):
        loss = Loss(method)
        relay(loss)
        assert await read(store, "a/blob") == WHOLE
        assert await store.size("a/blob") == len(WHOLE)
        assert await keys(store) == ["a/blob"]
        assert loss.times == 0

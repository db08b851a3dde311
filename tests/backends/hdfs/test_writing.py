"""A blob gets into HDFS whole or not at all, also where calls or their answers are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from milepost_backends.contract import BackendError, BlobExists, StorageUnavailable
from milepost_backends.hdfs.blobs import HdfsBlobs
from tests.contracts.streams import Stalled, fresh_stream, is_missing, keys, read, stream
from tests.support.network.rpc_relay import Loss, Relay
from tests.support.servers.hdfs import HdfsPlace

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

MIB = 1024 * 1024
PATIENT = 120.0


def left_over(hdfs: HdfsPlace) -> list[str]:
    """Whatever is none of the blobs'."""
    return [name for name in hdfs.names() if name.startswith(".uploading/")]


async def test_a_blob_of_many_blocks(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    whole = b"".join([chunk async for chunk in fresh_stream(18, MIB + 1)])
    assert await hdfs_store.put("blob", fresh_stream(18, MIB + 1)) == len(whole)
    assert await read(hdfs_store, "blob") == whole
    assert await read(hdfs_store, "blob", 4 * MIB - 1, 8 * MIB + 1) == whole[4 * MIB - 1 : 8 * MIB + 1]
    assert hdfs.client.get_file_info(hdfs.at("blob")).blocksize == 4 * MIB


async def test_nothing_is_visible_before_it_is_whole(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    stalled = Stalled(b"x" * MIB, b"x")
    putting = asyncio.create_task(hdfs_store.put("blob", aiter(stalled)))
    async with asyncio.timeout(60):
        await stalled.stalled.wait()
    assert await is_missing(hdfs_store, "blob")
    assert await keys(hdfs_store) == []
    assert len(left_over(hdfs)) == 1
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert left_over(hdfs) == []


async def test_a_key_that_is_taken_leaves_no_temporary_file(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    hdfs.write("a/blob", b"first")
    hdfs.write("b/blob/below", b"first")
    with pytest.raises(BlobExists):
        await hdfs_store.put("a/blob", stream(b"second"))
    for key in ("b/blob", "a/blob/below"):  # no keys that Milepost gives out
        with pytest.raises(StorageUnavailable):
            await hdfs_store.put(key, stream(b"second"))
    assert await keys(hdfs_store) == ["a/blob", "b/blob/below"]
    assert await read(hdfs_store, "a/blob") == b"first"
    assert left_over(hdfs) == []


async def test_directories_that_are_taken_away_are_made_again(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    await hdfs_store.put("a/b/first", stream(b"x"))
    hdfs.client.delete(hdfs.at("a"), recursive=True)
    hdfs.client.delete(hdfs.at(".uploading"))
    await hdfs_store.put("a/b/second", stream(b"x"))
    assert await keys(hdfs_store) == ["a/b/second"]
    assert hdfs.client.get_file_info(hdfs.at(".uploading")).permission == 0o700


async def test_a_temporary_file_that_is_taken_away(hdfs: HdfsPlace, hdfs_store: HdfsBlobs) -> None:
    """As another replica does with one that is a day old: what is at hand is written again, what is more fails."""

    async def broken_into(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * MIB
        (name,) = left_over(hdfs)
        hdfs.client.delete(hdfs.at(name))
        yield b"y" * MIB
        yield b"z" * 4 * MIB

    assert await hdfs_store.put("small", broken_into(3)) == 8 * MIB
    assert await read(hdfs_store, "small") == b"x" * 3 * MIB + b"y" * MIB + b"z" * 4 * MIB
    with pytest.raises(StorageUnavailable):
        await hdfs_store.put("large", broken_into(8))
    assert await is_missing(hdfs_store, "large")
    assert left_over(hdfs) == []


async def failure_to_put(hdfs: HdfsPlace, store: HdfsBlobs, patience: float = 0.0) -> StorageUnavailable | None:
    """Put a blob; return why it was not acknowledged. Either way that is what can be seen, and nothing else is left."""
    failure: StorageUnavailable | None = None
    try:
        assert await store.put("a/blob", stream(b"x" * MIB), patience=patience) == MIB
    except StorageUnavailable as error:
        failure = error
    assert await is_missing(store, "a/blob") is (failure is not None)
    assert left_over(hdfs) == []
    return failure


@pytest.mark.parametrize("after", [True, False], ids=["its answer is lost", "it is lost"])
@pytest.mark.parametrize("method", ["create", "addBlock", "complete", "rename2", "mkdirs"])
async def test_a_call_that_is_lost(
    hdfs: HdfsPlace, hdfs_behind: tuple[HdfsBlobs, Relay], method: str, after: bool
) -> None:
    store, relay = hdfs_behind
    if method == "rename2":
        await store.put("a/before", stream(b"x"))  # so that the first attempt is the one that does it
    loss = Loss(method, after=after)
    relay(loss)
    failure = await failure_to_put(hdfs, store)
    assert loss.times == 0
    assert failure is None or method not in {"mkdirs", "rename2"} or not after, repr(failure)


async def test_a_rename_that_never_came_to_the_name_node_leaves_nothing(
    hdfs: HdfsPlace, hdfs_behind: tuple[HdfsBlobs, Relay]
) -> None:
    store, relay = hdfs_behind
    await store.put("a/before", stream(b"x"))
    relay(Loss("rename2", times=2, after=False))  # also should the client ask again by itself
    assert await failure_to_put(hdfs, store) is not None


@pytest.mark.parametrize("patience", [0.0, PATIENT])
@pytest.mark.parametrize("times", range(1, 5))
@pytest.mark.parametrize("after", [True, False], ids=["answers are lost", "calls are lost"])
async def test_however_many_renames_are_lost_the_end_is_reported_right(
    hdfs: HdfsPlace, hdfs_behind: tuple[HdfsBlobs, Relay], times: int, after: bool, patience: float
) -> None:
    """The file is moved aside to find out whether it was moved before; those moves are lost as well.

    A patient put asks again for all of them, and is done.
    """
    store, relay = hdfs_behind
    await store.put("a/before", stream(b"x"))
    relay(Loss("rename2", times=times, after=after))
    failure = await failure_to_put(hdfs, store, patience)
    assert failure is None or not (after or patience) or (times == 4 and not patience), repr(failure)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("after", [True, False], ids=["answers are lost", "calls are lost"])
async def test_another_blob_is_never_taken_for_the_own_one(
    hdfs: HdfsPlace, hdfs_behind: tuple[HdfsBlobs, Relay], times: int, after: bool
) -> None:
    store, relay = hdfs_behind
    await store.put("a/blob", stream(b"first"))
    relay(Loss("rename2", times=times, after=after))
    with pytest.raises((BlobExists, StorageUnavailable)):
        await store.put("a/blob", stream(b"other"), patience=PATIENT)
    relay()
    assert await read(store, "a/blob") == b"first"
    assert left_over(hdfs) == []


async def test_a_delete_whose_answer_is_lost_is_done(hdfs_behind: tuple[HdfsBlobs, Relay]) -> None:
    store, relay = hdfs_behind
    await store.put("a/blob", stream(b"x"))
    relay(Loss("delete"))
    await store.delete("a/blob")
    assert await is_missing(store, "a/blob")


async def test_a_put_that_is_cancelled_in_its_last_step_leaves_nothing(
    hdfs: HdfsPlace, hdfs_behind: tuple[HdfsBlobs, Relay]
) -> None:
    """The rename is done, and its answer on the way: its caller never asked for what is there now."""
    store, relay = hdfs_behind
    await store.put("a/before", stream(b"x"))
    loss = Loss("rename2")
    relay(loss)
    putting = asyncio.create_task(store.put("a/blob", stream(b"x")))
    async with asyncio.timeout(60):
        await loss.seen.wait()
    putting.cancel()
    with suppress(BackendError, asyncio.CancelledError):
        await putting
    assert await is_missing(store, "a/blob") is putting.cancelled()
    assert left_over(hdfs) == []

"""Every blob store: immutable bytes, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import random
import tracemalloc
from contextlib import suppress

import pytest

from milepost_backends.contract import (
    BackendError,
    BlobExists,
    BlobInfo,
    BlobMissing,
    BlobSizeDiffers,
    BlobStore,
    StorageUnavailable,
    UnsafeKey,
)
from tests.contracts.places import Place
from tests.contracts.streams import Broken, Stalled, broken_stream, fresh_stream, is_missing, keys, read, stream
from tests.support.children import child
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

Blobs = Place[BlobStore]

MIB = 1024 * 1024
UNSAFE = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "a/../b",
    "a//b",
    "a/",
    ".hidden",
    "a/.b",
    "a b",
    "a\\b",
    "a\0b",
    "é",
    "a/..",
    "a\n",
]


@pytest.mark.parametrize(
    "chunks",
    [(), (b"",), (b"x",), (b"", b"a", b"", b"bc"), (b"x" * 65536,) * 40, (b"x" * (3 * MIB + 1), b"y")],
    ids=["nothing", "an empty chunk", "a byte", "empty chunks between", "small chunks", "a large chunk"],
)
async def test_what_was_put_is_there(blobs: Blobs, chunks: tuple[bytes, ...]) -> None:
    whole = b"".join(chunks)
    async with blobs.opened() as store:
        assert await store.put("stores/flights/1-a", stream(*chunks)) == len(whole)
        assert await store.size("stores/flights/1-a") == len(whole)
        assert await read(store, "stores/flights/1-a") == whole
    async with blobs.opened() as store:
        assert await read(store, "stores/flights/1-a") == whole


async def test_ranges_are_as_of_a_slice(blobs: Blobs) -> None:
    whole = os.urandom(2 * MIB + 3)
    size = len(whole)
    edges = [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, size - 1, size, size + 1, size + MIB]
    async with blobs.opened() as store:
        await store.put("blob", stream(whole))
        for start in edges:
            for end in (*edges, None):
                assert await read(store, "blob", start, end) == whole[start:end], (start, end)


async def test_a_blob_of_another_size_than_expected_is_refused_before_the_first_chunk(blobs: Blobs) -> None:
    whole = os.urandom(2 * MIB + 3)
    size = len(whole)
    async with blobs.opened() as store:
        await store.put("blob", stream(whole))
        await store.put("empty", stream())
        for span in ((0, None), (0, size), (5, 10), (size, None), (7, 7)):
            found = [chunk async for chunk in store.get("blob", *span, size=size)]
            assert b"".join(found) == whole[span[0] : span[1]], span
            for other in (size - 1, size + 1, 0):
                with pytest.raises(BlobSizeDiffers, match=f"the blob has {size} bytes, not {other}"):
                    await anext(aiter(store.get("blob", *span, size=other)))
        assert [chunk async for chunk in store.get("empty", size=0)] == []
        for span in ((0, None), (0, 5), (3, 5)):
            with pytest.raises(BlobSizeDiffers):
                await anext(aiter(store.get("empty", *span, size=5)))


async def test_chunks_are_neither_empty_nor_huge(blobs: Blobs) -> None:
    async with blobs.opened() as store:
        await store.put("blob", fresh_stream(40, 256 * 1024))
        sizes = [len(chunk) async for chunk in store.get("blob")]
    assert sum(sizes) == 10 * MIB
    assert 0 < min(sizes) <= max(sizes) <= 4 * MIB


async def test_a_missing_blob_is_missing_before_the_first_chunk(blobs: Blobs) -> None:
    async with blobs.opened() as store:
        await store.put("a/blob", stream(b"x"))
        for key in ("blob", "a", "a/blo", "a/blob1", "a/blob/b"):
            assert await is_missing(store, key)
            with pytest.raises(BlobMissing):
                await anext(store.get(key, 5, 5))


async def test_a_blob_is_never_overwritten(blobs: Blobs) -> None:
    async with blobs.opened() as store, blobs.opened() as other:
        await store.put("blob", stream(b"first"))
        for chunks in ((b"second",), (b"x" * MIB,) * 3):
            with pytest.raises(BlobExists):
                await other.put("blob", stream(*chunks))
        assert await read(store, "blob") == b"first"


async def test_of_two_puts_under_one_key_one_succeeds(blobs: Blobs) -> None:
    async with blobs.opened() as store, blobs.opened() as other:
        for number in range(10):
            ends = await asyncio.gather(
                store.put(f"blob-{number}", stream(b"one")),
                other.put(f"blob-{number}", stream(b"other")),
                return_exceptions=True,
            )
            assert sorted(isinstance(end, BlobExists) for end in ends) == [False, True]
            expected = b"other" if isinstance(ends[0], BlobExists) else b"one"
            assert await read(store, f"blob-{number}") == expected


@pytest.mark.parametrize("count", [0, 1, 40])
async def test_a_stream_that_breaks_leaves_nothing_and_its_error_passes(blobs: Blobs, count: int) -> None:
    async with blobs.opened() as store:
        with pytest.raises(Broken):
            await store.put("blob", broken_stream(count, 256 * 1024))
        assert await is_missing(store, "blob")
        assert await keys(store) == []
        await store.put("blob", stream(b"second try"))
        assert await read(store, "blob") == b"second try"


async def test_a_put_that_is_cancelled_while_it_waits_for_its_stream_leaves_nothing(blobs: Blobs) -> None:
    async with blobs.opened() as store:
        for chunks in ((), (b"x",), (b"x" * MIB,) * 12):
            stalled = Stalled(*chunks)
            putting = asyncio.create_task(store.put("blob", aiter(stalled)))
            async with asyncio.timeout(60):
                await stalled.stalled.wait()
            putting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await putting
            assert await is_missing(store, "blob")
        assert await keys(store) == []


async def test_a_put_that_is_cancelled_at_any_point_is_whole_or_not_there(blobs: Blobs) -> None:
    shuffled = random.Random(5)
    async with blobs.opened() as store:
        for number in range(60):
            count = shuffled.choice((1, 1, 24))
            putting = asyncio.create_task(store.put(f"blob-{number}", fresh_stream(count, 100_000)))
            for _ in range(shuffled.randrange(12)):
                await asyncio.sleep(shuffled.choice((0, 0, 0.001)))
            putting.cancel()
            size: int | None = None
            with suppress(asyncio.CancelledError):
                size = await putting
            assert await is_missing(store, f"blob-{number}") is (size is None)


async def test_a_killed_process_leaves_nothing_half_written(blobs: Blobs) -> None:
    module, arguments = "tests.contracts.children.putter", (blobs.backend.name, blobs.address)
    async with child(module, *arguments) as putter:
        printed = [await putter.line() for _ in range(12)]
        await putter.kill()
        printed += await putter.rest()
    async with blobs.opened() as store:
        listed = await keys(store)
        assert set(printed) <= set(listed)
        assert len(listed) <= len(printed) + 1
        for key in listed:
            assert await store.size(key) == 3 * MIB
            assert await read(store, key) == b"".join([chunk async for chunk in fresh_stream(12, MIB // 4)])


async def test_the_stream_is_never_held_in_memory_as_a_whole(blobs: Blobs) -> None:
    """Measured is Python's memory: 64 MiB go in and out through less than 24."""
    async with blobs.opened() as store:
        tracemalloc.start()
        try:
            await store.put("blob", fresh_stream(1024, 65536))
            total = 0
            async for chunk in store.get("blob"):
                total += len(chunk)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert total == 64 * MIB
    assert peak < 24 * MIB


async def test_delete_can_be_repeated_and_spares_the_others(blobs: Blobs) -> None:
    async with blobs.opened() as store:
        await store.put("a/blob", stream(b"x"))
        await store.put("a/blob1", stream(b"y"))
        await store.delete("a/blob")
        await store.delete("a/blob")
        await store.delete("a")
        await store.delete("never/was")
        await store.delete("a/blob1/below")
        assert await is_missing(store, "a/blob")
        assert await keys(store) == ["a/blob1"]


async def test_blobs_are_listed_by_prefix(blobs: Blobs) -> None:
    every = ["ab", "a/b/1", "a/b/2", "a/c/1", "a/bc/1", "b/1"]
    async with blobs.opened() as store:
        for key in every:
            await store.put(key, stream(key.encode() * 3))
        for prefix in ("", "a", "a/", "a/b", "a/b/", "a/b/1", "a/b/11", "b", "c/", "c/d/e"):
            assert await keys(store, prefix) == sorted(key for key in every if key.startswith(prefix)), prefix
        assert {info.key: info.size async for info in store.list("", 0)} == {key: 3 * len(key) for key in every}


async def test_blobs_are_listed_by_age(blobs: Blobs) -> None:
    async with blobs.opened() as store:
        await store.put("blob", stream(b"x"))
        assert await keys(store, "", 3600.0) == []
        (info,) = [info async for info in store.list("", 0)]
        assert 0 <= info.age < 600

        async def is_old() -> bool:
            return await keys(store, "", 2.0) == ["blob"]

        await until(is_old)
        (later,) = [info async for info in store.list("", 2.0)]
        assert isinstance(later, BlobInfo)
        assert later.age >= 2.0
        await store.put("young", stream(b"x"))
        assert await keys(store, "", later.age) == ["blob"]


async def test_a_long_list_is_whole_and_can_be_left_early(blobs: Blobs) -> None:
    async with blobs.opened() as store:
        for begin in range(0, 1200, 100):
            await asyncio.gather(*(store.put(f"a/{number}", stream(b"x")) for number in range(begin, begin + 100)))
        assert await keys(store, "a/") == sorted(f"a/{number}" for number in range(1200))
        listing = store.list("", 0)
        assert (await anext(listing)).size == 1
        async for info in store.list("a/", 0):
            await store.delete(info.key)
        assert await keys(store) == []


@pytest.mark.parametrize("key", UNSAFE)
async def test_unsafe_keys_are_refused(blobs: Blobs, key: str) -> None:
    async with blobs.opened() as store:
        with pytest.raises(UnsafeKey):
            await store.put(key, stream(b"x"))
        with pytest.raises(UnsafeKey):
            await read(store, key)
        with pytest.raises(UnsafeKey):
            await store.size(key)
        with pytest.raises(UnsafeKey):
            await store.delete(key)
        assert await keys(store) == []


@pytest.mark.parametrize("prefix", ["/", "..", "a/../", "../a", ".tmp", "a//", "a b"])
async def test_unsafe_prefixes_are_refused(blobs: Blobs, prefix: str) -> None:
    async with blobs.opened() as store:
        with pytest.raises(UnsafeKey):
            await keys(store, prefix)


async def test_open_and_close_can_be_repeated(blobs: Blobs) -> None:
    store = blobs.build()
    await store.open()
    await store.open()
    await store.put("blob", stream(b"x"))
    await store.close()
    await store.close()
    with pytest.raises(StorageUnavailable):
        await store.put("other", stream(b"x"))
    with pytest.raises(StorageUnavailable):
        await store.size("blob")
    await store.open()
    assert await keys(store) == ["blob"]
    await store.close()


async def test_a_put_on_its_way_while_the_store_closes_is_whole_or_not_there(blobs: Blobs) -> None:
    for number in range(5):
        store = blobs.build()
        await store.open()
        putting = asyncio.create_task(store.put(f"blob-{number}", fresh_stream(20, 200_000)))
        for _ in range(number * 4):
            await asyncio.sleep(0)
        await store.close()
        size: int | None = None
        with suppress(BackendError):
            size = await putting
        async with blobs.opened() as again:
            assert await is_missing(again, f"blob-{number}") is (size is None)

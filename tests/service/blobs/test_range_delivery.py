"""Parts of files: each byte is proven, and little more is read than is given."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from milepost.errors import Corrupt, Problem
from milepost_backends.contract import StorageFull
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.deletion_queue import delete_with_list
from milepost_server.blobs.delivery import AHEAD_BYTES, DeliveryCut
from milepost_server.blobs.intake import Incoming, take_in
from milepost_server.blobs.keys import blob_key, file_key, list_of, owner_of, place_of
from milepost_server.blobs.range_delivery import REMEMBERED_BYTES, STEADY_BYTES, RangeDelivery
from milepost_server.blobs.range_digests import LISTED_ABOVE_BYTES, RANGE_BYTES
from milepost_server.model.requests.base import BlobRef
from tests.service.acting import STORE

pytestmark = pytest.mark.anyio

CONTENT = random.Random(1).randbytes(6 * RANGE_BYTES + 1_000)
OFFSETS = [0, 1, RANGE_BYTES - 1, RANGE_BYTES, 3 * RANGE_BYTES + 7, 6 * RANGE_BYTES, len(CONTENT) - 1, len(CONTENT)]


class CountedBlobs(LocalBlobs):
    """Blobs in a directory, and what was read of them."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory = directory
        self.read: dict[str, int] = {}
        self.lists_fit = True

    async def get(
        self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        async for chunk in super().get(key, start, end, size=size):
            self.read[key] = self.read.get(key, 0) + len(chunk)
            yield chunk

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = 0.0) -> int:
        if owner_of(key) != key and not self.lists_fit:
            raise StorageFull("a fault of this test: there is no room for a list")
        return await super().put(key, stream, patience=patience)

    def file_of(self, key: str) -> Path:
        """Where a blob lies."""
        (found,) = self.directory.rglob(key.rpartition("/")[2])
        return found


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[CountedBlobs]:
    made = CountedBlobs(tmp_path / "blobs")
    await made.open()
    yield made
    await made.close()


async def put(blobs: CountedBlobs, content: bytes = CONTENT, key: str = "") -> BlobRef:
    """A file that was taken in."""
    return await take_in(blobs, key or file_key("d", STORE, 1), Incoming(stream_of(content)), None)


async def given(chunks: AsyncIterator[bytes]) -> bytes:
    """All that is delivered."""
    return b"".join([chunk async for chunk in chunks])


def flip(path: Path, at: int) -> None:
    """Turn one bit round."""
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def key_of_list(ref: BlobRef) -> str:
    """The key of the list of a file's digests."""
    key = list_of(ref.key)
    assert key is not None
    return key


@pytest.mark.parametrize("start", OFFSETS)
async def test_a_part_is_given_and_little_more_is_read(blobs: CountedBlobs, start: int) -> None:
    ref = await put(blobs)
    for end in (start, start + 1, start + RANGE_BYTES, len(CONTENT) - 1, len(CONTENT), None):
        if end is not None and not start <= end <= len(CONTENT):
            continue
        blobs.read.clear()
        assert await given(await RangeDelivery(blobs).deliver(ref, start, end)) == CONTENT[start:end]
        wanted = (len(CONTENT) if end is None else end) - start
        assert blobs.read.get(ref.key, 0) <= wanted + 2 * RANGE_BYTES
        assert blobs.read.get(key_of_list(ref), 0) <= 600


async def test_who_stops_reading_has_caused_no_more_than_twice_that_to_be_read(blobs: CountedBlobs) -> None:
    ref = await put(blobs, CONTENT * 8)
    for most in (1, 1_000_000, STEADY_BYTES + 1, 3 * STEADY_BYTES):
        blobs.read.clear()
        taken = 0
        async for chunk in await RangeDelivery(blobs).deliver(ref, 3 * RANGE_BYTES + 5):
            taken += len(chunk)
            if taken >= most:
                break
        assert blobs.read[ref.key] <= 2 * taken + 2 * RANGE_BYTES


async def test_who_goes_on_right_where_he_stopped_is_given_what_was_read_already(blobs: CountedBlobs) -> None:
    """As Hadoop's client does in a positioned read."""
    ref = await put(blobs)
    delivery, start = RangeDelivery(blobs), 10
    while start < len(CONTENT):
        chunks = await delivery.deliver(ref, start)
        for piece in [await anext(chunks), await anext(chunks, b"")]:  # the second one is sent, and not taken
            assert piece == b"" or piece in CONTENT
        start += 100_000
    assert blobs.read[ref.key] <= 1.2 * len(CONTENT)
    assert blobs.read[key_of_list(ref)] <= 600


async def test_no_more_than_so_much_is_kept_in_memory(blobs: CountedBlobs) -> None:
    ref = await put(blobs, b"0123456789" * (REMEMBERED_BYTES // 8))
    delivery = RangeDelivery(blobs)

    async def look_at_each() -> int:
        before = blobs.read.get(ref.key, 0)
        for start in range(RANGE_BYTES, ref.size, RANGE_BYTES):
            await anext(await delivery.deliver(ref, start))
        return blobs.read[ref.key] - before

    assert await look_at_each() == await look_at_each() == ref.size - RANGE_BYTES


@pytest.mark.parametrize("start", [0, RANGE_BYTES, STEADY_BYTES], ids=["whole", "rest", "later rest"])
async def test_a_delivery_that_nobody_reads_on_holds_no_more_than_is_counted_for_it(
    blobs: CountedBlobs, start: int
) -> None:
    """Besides the ranges that are kept for all."""
    ref, delivery, count = await put(blobs, CONTENT * 4), RangeDelivery(blobs), 8
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        stalled = []
        for _ in range(count):
            chunks = await delivery.deliver(ref, start)
            stalled.append((chunks, [len(await anext(chunks)) for _ in range(10)], await anext(chunks)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = 11 * RANGE_BYTES if start else 0
    assert (after - before - kept) / count < AHEAD_BYTES
    del stalled


async def test_those_who_read_the_same_at_the_same_time_have_it_read_once(blobs: CountedBlobs) -> None:
    ref = await put(blobs)
    delivery = RangeDelivery(blobs)

    async def look(start: int) -> bytes:
        return await anext(await delivery.deliver(ref, start))

    got = await asyncio.gather(*(look(RANGE_BYTES + begin) for begin in range(20)))
    assert got == [CONTENT[RANGE_BYTES + begin : 2 * RANGE_BYTES] for begin in range(20)]
    assert blobs.read[ref.key] == RANGE_BYTES
    once = len(blobs.file_of(key_of_list(ref)).read_bytes())
    assert blobs.read[key_of_list(ref)] == once


async def test_small_parts_next_to_each_other_have_their_range_read_once(blobs: CountedBlobs) -> None:
    ref = await put(blobs)
    delivery = RangeDelivery(blobs)
    for start in range(0, RANGE_BYTES, 16_384):
        part = await given(await delivery.deliver(ref, start, start + 4096))
        assert part == CONTENT[start : start + 4096]
    assert blobs.read[ref.key] == RANGE_BYTES


async def test_a_failure_of_the_store_is_not_kept(blobs: CountedBlobs) -> None:
    ref = await put(blobs)
    delivery = RangeDelivery(blobs)
    content = blobs.file_of(ref.key).read_bytes()
    flip(blobs.file_of(ref.key), RANGE_BYTES)
    with pytest.raises(Corrupt):
        await delivery.deliver(ref, RANGE_BYTES)
    blobs.file_of(ref.key).write_bytes(content)
    assert await given(await delivery.deliver(ref, RANGE_BYTES)) == CONTENT[RANGE_BYTES:]


@pytest.mark.parametrize("damaged", [0, RANGE_BYTES, 3 * RANGE_BYTES + 7, len(CONTENT) - 1])
@pytest.mark.parametrize("start", OFFSETS[:-1])
async def test_a_damaged_range_is_never_given(blobs: CountedBlobs, start: int, damaged: int) -> None:
    ref = await put(blobs)
    flip(blobs.file_of(ref.key), damaged)
    got = bytearray()

    async def take(end: int | None) -> None:
        async for chunk in await RangeDelivery(blobs).deliver(ref, start, end):
            got.extend(chunk)

    for end in (None, len(CONTENT), len(CONTENT) - 1):
        got.clear()
        reached = damaged // RANGE_BYTES >= start // RANGE_BYTES and end != start
        if reached:
            first = damaged // RANGE_BYTES == start // RANGE_BYTES
            with pytest.raises(Corrupt if first else DeliveryCut, match="do not match"):
                await take(end)
            end = max(start, damaged // RANGE_BYTES * RANGE_BYTES)
        else:
            await take(end)
        assert got == CONTENT[start:end]


@pytest.mark.parametrize(
    "how", ["flipped", "cut short", "empty", "gone", "of another file", "longer than its file", "unreadable"]
)
async def test_a_file_whose_list_is_damaged_is_read_as_one_without(blobs: CountedBlobs, how: str) -> None:
    ref = await put(blobs)
    path = blobs.file_of(key_of_list(ref))
    if how == "flipped":
        flip(path, 60)
    elif how == "gone":
        path.unlink()
    elif how == "unreadable":
        path.unlink()
        path.symlink_to(path)  # which the operating system refuses to open, for good
    else:
        other = await put(blobs, CONTENT[::-1])
        others = blobs.file_of(key_of_list(other)).read_bytes()
        contents = {"cut short": path.read_bytes()[:-1], "empty": b"", "of another file": others}
        path.write_bytes(contents.get(how, others * 20_000))
    for start in OFFSETS:
        assert await given(await RangeDelivery(blobs).deliver(ref, start)) == CONTENT[start:]
    flip(blobs.file_of(ref.key), 10)
    with pytest.raises((DeliveryCut, Corrupt)):
        await given(await RangeDelivery(blobs).deliver(ref, len(CONTENT) - 1))


async def test_a_file_that_was_put_without_a_list_is_read_as_before(blobs: CountedBlobs) -> None:
    ref = await put(blobs, key=blob_key("d", STORE, 1))
    for start in OFFSETS:
        assert await given(await RangeDelivery(blobs).deliver(ref, start)) == CONTENT[start:]
    assert set(blobs.read) == {ref.key}


async def test_a_small_file_has_no_list(blobs: CountedBlobs) -> None:
    ref = await put(blobs, CONTENT[:LISTED_ABOVE_BYTES])
    assert await given(await RangeDelivery(blobs).deliver(ref, 5)) == CONTENT[5:LISTED_ABOVE_BYTES]
    assert {info.key async for info in blobs.list("", 0.0)} == {ref.key}


async def test_a_file_is_taken_in_also_where_its_list_is_not(blobs: CountedBlobs) -> None:
    blobs.lists_fit = False
    ref = await put(blobs)
    assert await given(await RangeDelivery(blobs).deliver(ref, 77)) == CONTENT[77:]


async def test_a_refused_file_leaves_no_list(blobs: CountedBlobs) -> None:
    with pytest.raises(Problem):
        await take_in(blobs, file_key("d", STORE, 1), Incoming(stream_of(CONTENT), len(CONTENT) + 1), None)
    assert [info async for info in blobs.list("", 0.0)] == []


async def test_a_list_goes_with_its_file(blobs: CountedBlobs) -> None:
    ref, other = await put(blobs), await put(blobs)
    assert place_of(key_of_list(ref)) == place_of(ref.key)
    assert owner_of(key_of_list(ref)) == ref.key
    await delete_with_list(blobs, ref.key)
    assert {info.key async for info in blobs.list("", 0.0)} == {other.key, key_of_list(other)}

"""Writing blobs to S3: in one request or in parts, whole or not at all, whatever happens on the way."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tracemalloc
from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from milepost_backends.contract import BlobExists, StorageFull, StorageUnavailable
from milepost_backends.s3.blobs import S3Blobs
from milepost_backends.s3.writing import PART_BYTES, Cutter, part_bytes
from tests.backends.s3.conftest import S3Place
from tests.contracts.streams import Broken, Stalled, broken_stream, fresh_stream, is_missing, read, stream
from tests.support.network.gateway import Fault, Gateway, Request
from tests.support.servers.s3 import BUCKET

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
SIZES = [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 4 * PART_BYTES + 7]


@pytest.mark.parametrize("size", SIZES)
async def test_every_byte_arrives_at_its_place(store: S3Blobs, s3: S3Place, size: int) -> None:
    whole = os.urandom(size)
    pieces = [whole[begin : begin + 700_001] for begin in range(0, size, 700_001)]
    for key, chunks in (("in-pieces", pieces), ("at-once", [whole])):
        assert await store.put(key, stream(*chunks)) == size
        assert await store.size(key) == size
        assert await read(store, key) == whole
    assert s3.uploads() == []


async def test_up_to_a_part_is_one_request_and_more_is_an_upload(faulty: tuple[S3Blobs, Gateway]) -> None:
    store, gateway = faulty
    await store.put("small", fresh_stream(5, MIB))
    assert [request.method for request in gateway.requests] == ["PUT"]
    gateway.requests.clear()
    await store.put("large", fresh_stream(11, MIB))
    begun, *sent, completed = gateway.requests
    assert (begun.method, completed.method) == ("POST", "POST")
    assert [request.method for request in sent] == ["PUT"] * 3


def test_parts_never_run_out() -> None:
    """S3 takes 10,000 parts of 5 MiB to 5 GiB."""
    sizes = [part_bytes(number) for number in range(1, 10_001)]
    assert min(sizes) == 5 * MIB
    assert max(sizes) <= 5 * 1024 * MIB
    assert sum(sizes) > 4.8 * 1024**4
    assert sizes == sorted(sizes)


async def test_a_stream_is_cut_into_parts_that_are_followed_by_more() -> None:
    for size in SIZES:
        cutter = Cutter()
        parts = [len(part) async for part in cutter.followed_parts(stream(b"x" * size))]
        assert parts == [PART_BYTES] * max(0, (size - 1) // PART_BYTES)
        assert sum(parts) + len(cutter.rest) == cutter.size == size


async def test_the_server_is_told_what_it_should_get(store: S3Blobs, s3: S3Place) -> None:
    await store.put("blob", stream(b"some", b"thing"))
    head = s3.client.head_object(Bucket=BUCKET, Key=s3.path("blob"), ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"] == b64encode(hashlib.sha256(b"something").digest()).decode()


@pytest.mark.parametrize("size", [10, 2 * PART_BYTES + 3])
async def test_bytes_that_are_damaged_on_their_way_are_refused(
    faulty: tuple[S3Blobs, Gateway], s3: S3Place, size: int
) -> None:
    store, gateway = faulty
    gateway(Fault(is_put, damage=True))
    with pytest.raises(StorageUnavailable):
        await store.put("blob", stream(b"x" * size))
    gateway()
    assert await is_missing(store, "blob")
    assert s3.uploads() == []


@pytest.mark.parametrize("count", [1, 12])
async def test_a_stream_that_breaks_leaves_no_upload(store: S3Blobs, s3: S3Place, count: int) -> None:
    with pytest.raises(Broken):
        await store.put("blob", broken_stream(count, MIB))
    assert s3.uploads() == []
    assert s3.objects() == []


async def test_a_put_that_is_cancelled_leaves_no_upload(store: S3Blobs, s3: S3Place) -> None:
    stalled = Stalled(*(b"x" * MIB for _ in range(12)))
    putting = asyncio.create_task(store.put("blob", aiter(stalled)))
    async with asyncio.timeout(60):
        await stalled.stalled.wait()
    assert s3.uploads() == ["blob"]
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert s3.uploads() == []
    assert s3.objects() == []


async def test_a_key_that_was_taken_while_the_parts_were_sent_stays_as_it_is(store: S3Blobs, s3: S3Place) -> None:
    async def taken_meanwhile() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield b"x" * MIB
        s3.overwrite("blob", b"another writer's")

    with pytest.raises(BlobExists):
        await store.put("blob", taken_meanwhile())
    assert await read(store, "blob") == b"another writer's"
    assert s3.uploads() == []


@pytest.mark.parametrize("size", [10, 2 * PART_BYTES + 3])
async def test_a_blob_whose_acknowledgement_was_lost_is_taken_away(
    faulty: tuple[S3Blobs, Gateway], s3: S3Place, size: int
) -> None:
    """It was committed, but nobody was told: the end is unknown, and so it must not stay."""
    store, gateway = faulty
    gateway(Fault(is_last, times=1, lose_answer=True))
    with pytest.raises(StorageUnavailable):
        await store.put("blob", stream(b"x" * size), patience=0.0)
    assert s3.objects() == []
    assert s3.uploads() == []
    await store.put("blob", stream(b"second try"))
    assert await read(store, "blob") == b"second try"


@pytest.mark.parametrize("count", [1, 6])
async def test_a_put_that_was_repeated_on_its_way_is_done(faulty: tuple[S3Blobs, Gateway], count: int) -> None:
    """The answer is that the key is taken, but it was this very put that took it."""
    store, gateway = faulty
    gateway(Fault(is_last, times=1, twice=True))
    assert await store.put("blob", fresh_stream(count, MIB)) == count * MIB
    assert await store.size("blob") == count * MIB
    gateway(Fault(is_last, times=1, twice=True))
    with pytest.raises(BlobExists):
        await store.put("blob", stream(b"another"))
    assert await store.size("blob") == count * MIB


async def test_what_another_wrote_is_not_taken_away_by_mistake(faulty: tuple[S3Blobs, Gateway], s3: S3Place) -> None:
    store, gateway = faulty
    s3.overwrite("blob", b"another writer's")
    gateway(Fault(is_put, times=1, lose_answer=True))
    with pytest.raises(StorageUnavailable):
        await store.put("blob", stream(b"mine"), patience=0.0)
    assert await read(store, "blob") == b"another writer's"


async def test_what_cannot_be_tidied_up_is_logged_and_the_first_error_stands(
    faulty: tuple[S3Blobs, Gateway], s3: S3Place, caplog: pytest.LogCaptureFixture
) -> None:
    store, gateway = faulty
    gateway(
        Fault(lambda request: request.method == "POST" and "uploadId" in request.target, answer=(500, "InternalError")),
        Fault(lambda request: request.method == "DELETE", answer=(403, "AccessDenied")),
    )
    with pytest.raises(StorageUnavailable, match="complete an upload"):
        await store.put("blob", fresh_stream(6, MIB), patience=0.0)
    assert "an unfinished blob may be left" in caplog.text
    assert s3.objects() == []


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (507, "InsufficientStorage", StorageFull),
        (403, "QuotaExceeded", StorageFull),
        (400, "QuotaExceeded", StorageFull),
        (403, "AccessDenied", StorageUnavailable),
        (404, "NoSuchBucket", StorageUnavailable),
        (409, "ConditionalRequestConflict", StorageUnavailable),
        (412, "PreconditionFailed", BlobExists),
        (500, "InternalError", StorageUnavailable),
        (503, "SlowDown", StorageUnavailable),
    ],
)
@pytest.mark.parametrize("count", [1, 6])
async def test_what_servers_answer(
    faulty: tuple[S3Blobs, Gateway], status: int, code: str, expected: type[Exception], count: int
) -> None:
    """The gateway answers in the place of a server: these answers cannot all be had from one that is well."""
    store, gateway = faulty
    gateway(Fault(is_last, answer=(status, code)))
    with pytest.raises(expected):
        await store.put("blob", fresh_stream(count, MIB), patience=0.0)


async def test_a_put_without_patience_is_sent_once(faulty: tuple[S3Blobs, Gateway]) -> None:
    """No library below repeats it: who does must look whose blob is there."""
    store, gateway = faulty
    gateway(Fault(is_last, answer=(503, "SlowDown")))
    for count in (1, 6):
        gateway.requests.clear()
        with pytest.raises(StorageUnavailable):
            await store.put("blob", fresh_stream(count, MIB), patience=0.0)
        assert len([request for request in gateway.requests if is_last(request)]) == 1


async def test_a_part_is_sent_again(faulty: tuple[S3Blobs, Gateway]) -> None:
    store, gateway = faulty
    gateway(Fault(lambda request: "partNumber=2" in request.target, times=1, answer=(503, "SlowDown")))
    assert await store.put("blob", fresh_stream(11, MIB)) == 11 * MIB
    assert await store.size("blob") == 11 * MIB


async def test_a_large_blob_goes_through_a_bounded_part_of_memory(store: S3Blobs) -> None:
    tracemalloc.start()
    try:
        await store.put("blob", fresh_stream(640, 65536))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert await store.size("blob") == 40 * MIB
    assert peak < 24 * MIB


def is_put(request: Request) -> bool:
    """Whether an object, or a part of one, is being put."""
    return request.method == "PUT"


def is_last(request: Request) -> bool:
    """Whether this request makes a blob visible: it puts an object, or completes an upload."""
    if request.method == "PUT":
        return "partNumber" not in request.target
    return request.method == "POST" and "uploadId" in request.target

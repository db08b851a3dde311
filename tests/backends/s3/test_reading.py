"""Reading blobs from S3, through breaks, and what is found when somebody was at them behind Milepost's back."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from milepost_backends.contract import BlobMissing, BlobTruncated, StorageUnavailable
from milepost_backends.s3.blobs import S3Blobs
from tests.backends.s3.conftest import S3Place
from tests.contracts.streams import is_missing, keys, read, stream
from tests.support.network.gateway import Fault, Gateway, Request
from tests.support.servers.s3 import BUCKET

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


async def test_reading_goes_on_where_the_connection_broke(faulty: tuple[S3Blobs, Gateway]) -> None:
    store, gateway = faulty
    whole = os.urandom(5 * MIB)
    await store.put("blob", stream(whole))
    for start, end in ((0, None), (MIB + 1, None), (3, 4 * MIB + 5)):
        gateway(Fault(is_get, cut_after=MIB + 7))
        assert await read(store, "blob", start, end) == whole[start:end]
    assert len([request for request in gateway.requests if is_get(request)]) >= 12


async def test_reading_gives_up_where_nothing_comes_any_more(faulty: tuple[S3Blobs, Gateway]) -> None:
    store, gateway = faulty
    await store.put("blob", stream(b"x" * 3 * MIB))
    gateway(Fault(is_get, cut_after=MIB, times=1), Fault(is_get, cut_after=0))
    reading = store.get("blob")
    assert len(await anext(reading)) > 0
    with pytest.raises(StorageUnavailable):
        await rest(reading)


async def test_a_read_is_asked_again(faulty: tuple[S3Blobs, Gateway]) -> None:
    store, gateway = faulty
    await store.put("blob", stream(b"here"))
    gateway(Fault(lambda _: True, times=1, answer=(503, "SlowDown")))
    assert await read(store, "blob") == b"here"
    gateway(Fault(lambda _: True, times=1, answer=(500, "InternalError")))
    assert await store.size("blob") == 4
    gateway(Fault(lambda _: True, times=1, lose_answer=True))
    assert await keys(store) == ["blob"]
    gateway(Fault(lambda _: True, times=1, lose_answer=True))
    await store.delete("blob")
    assert await is_missing(store, "blob")


async def test_a_blob_that_is_replaced_while_it_is_read_is_not_patched_together(
    faulty: tuple[S3Blobs, Gateway], s3: S3Place
) -> None:
    store, gateway = faulty
    await store.put("blob", stream(b"x" * 4 * MIB))
    gateway(Fault(is_get, cut_after=MIB))
    reading = store.get("blob")
    assert set(await anext(reading)) == {ord("x")}
    s3.overwrite("blob", b"y" * 4 * MIB)
    with pytest.raises(BlobTruncated):
        await rest(reading)


async def test_a_blob_that_is_deleted_while_it_is_read_ends_early(faulty: tuple[S3Blobs, Gateway], s3: S3Place) -> None:
    store, gateway = faulty
    await store.put("blob", stream(b"x" * 4 * MIB))
    gateway(Fault(is_get, cut_after=MIB))
    reading = store.get("blob")
    await anext(reading)
    s3.client.delete_object(Bucket=BUCKET, Key=s3.path("blob"))
    with pytest.raises(BlobTruncated):
        await rest(reading)


async def test_a_blob_that_was_deleted_behind_our_back(store: S3Blobs, s3: S3Place) -> None:
    await store.put("blob", stream(b"here"))
    s3.client.delete_object(Bucket=BUCKET, Key=s3.path("blob"))
    assert await is_missing(store, "blob")
    with pytest.raises(BlobMissing):
        await store.checked_digest("blob")


async def test_a_blob_that_was_cut_short_behind_our_back(store: S3Blobs, s3: S3Place) -> None:
    """It is another blob then. Its size differs, which shows it to a reader who knows the record."""
    await store.put("blob", stream(b"something"))
    s3.overwrite("blob", b"some")
    assert await store.size("blob") == 4
    assert await read(store, "blob") == b"some"
    assert await read(store, "blob", 2, 9) == b"me"
    assert await read(store, "blob", 6, 9) == b""


async def test_a_bucket_that_is_gone_is_not_many_missing_blobs(s3: S3Place) -> None:
    s3.server.make_bucket("milepost-gone")
    store = S3Blobs(s3.server.url("milepost-gone"))
    await store.open()
    try:
        await store.put("blob", stream(b"here"))
        s3.client.delete_object(Bucket="milepost-gone", Key=".milepost-probe")
        s3.client.delete_object(Bucket="milepost-gone", Key="blob")
        s3.client.delete_bucket(Bucket="milepost-gone")
        with pytest.raises(StorageUnavailable):
            await store.size("blob")
        with pytest.raises(StorageUnavailable):
            await read(store, "blob")
        with pytest.raises(StorageUnavailable):
            await read(store, "blob", 1, 2)
        with pytest.raises(StorageUnavailable):
            await store.checked_digest("blob")
        with pytest.raises(StorageUnavailable):
            await store.put("blob", stream(b"here"))
        with pytest.raises(StorageUnavailable):
            await keys(store)
    finally:
        await store.close()


async def test_prefixes_do_not_see_each_other(s3: S3Place) -> None:
    places = [S3Blobs(s3.server.url(BUCKET, s3.prefix + end)) for end in ("", "2", "/below")]
    for number, place in enumerate(places):
        await place.open()
        await place.put("blob", stream(bytes([number])))
    for number, place in enumerate(places[1:], 1):
        assert await keys(place) == ["blob"]
        assert await read(place, "blob") == bytes([number])
    assert await keys(places[0]) == ["below/blob", "blob"]
    await places[0].delete("blob")
    assert await keys(places[1]) == ["blob"]
    for place in places:
        await place.close()


async def test_objects_that_cannot_be_blobs_are_not_listed(store: S3Blobs, s3: S3Place) -> None:
    await store.put("a/blob", stream(b"x"))
    for name in ("with space", ".hidden", "a/.hidden", "é"):
        s3.overwrite(name, b"not ours")
    assert await keys(store) == ["a/blob"]


async def test_the_age_is_taken_from_the_servers_clock(s3: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this machine jumps by a day; what the store says of ages does not."""
    store = S3Blobs(s3.url())
    await store.open()
    await store.put("blob", stream(b"x"))
    monkeypatch.setattr("time.time", lambda: 86400.0)
    (info,) = [info async for info in store.list("", 0)]
    assert 0 <= info.age < 600
    await store.close()


async def rest(reading: AsyncIterator[bytes]) -> None:
    """Read on to the end; all of it is the first blob's."""
    async for chunk in reading:
        assert set(chunk) == {ord("x")}


def is_get(request: Request) -> bool:
    """Whether an object is being read, or the bucket listed."""
    return request.method == "GET"

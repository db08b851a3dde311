"""An S3 server that goes away, hangs and comes back, under a store that stays open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest

from backends.s3 import writing as s3_writing
from backends.s3.blobs import S3Blobs
from testbed.seaweedfs import SeaweedFS
from tests.contracts.streams import Broken, is_missing, is_missing_or, is_unavailable, keys, read, stream
from tests.support.s3 import BUCKET, running
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    """One that may be stopped."""
    with running(tmp_path_factory.mktemp("seaweedfs")) as started:
        yield started


@pytest.fixture
async def short(server: SeaweedFS) -> AsyncIterator[S3Blobs]:
    """A store that waits for a few seconds only."""
    store = S3Blobs(server.url(BUCKET), deadline=3.0)
    await store.open()
    yield store
    await store.close()


async def test_a_server_that_stops_and_starts_again(server: SeaweedFS, short: S3Blobs) -> None:
    await short.put("stopped/kept", stream(b"kept"))
    server.stop()
    later = S3Blobs(server.url(BUCKET), deadline=3.0)
    assert await is_unavailable(later.open())
    assert await is_unavailable(short.put("stopped/blob", stream(b"x")))
    assert await is_unavailable(short.put("stopped/large", stream(b"x" * 6_000_000)))
    assert await is_unavailable(short.size("stopped/kept"))
    assert await is_unavailable(read(short, "stopped/kept"))
    assert await is_unavailable(short.delete("stopped/kept"))
    assert await is_unavailable(keys(short))
    assert await is_unavailable(short.checked_digest("stopped/kept"))
    assert await short.sign_get("stopped/kept", 60.0) is not None
    server.start()
    await later.open()
    for store in (short, later):
        assert await read(store, "stopped/kept") == b"kept"
        assert await is_missing(store, "stopped/blob")
    assert await keys(short, "stopped/") == ["stopped/kept"]
    await short.put("stopped/blob", stream(b"x"))
    await later.close()


async def test_a_server_that_hangs(server: SeaweedFS, short: S3Blobs) -> None:
    """Nothing waits for ever; what was on its way when it woke up is whole or not there, and others are as before."""
    await short.put("hung/kept", stream(b"kept"))
    server.process.pause()
    try:
        calls = (
            short.put("hung/blob", stream(b"x")),
            short.size("hung/kept"),
            read(short, "hung/kept"),
            short.delete("hung/other"),
            keys(short),
            short.checked_digest("hung/kept"),
        )
        assert await asyncio.gather(*map(is_unavailable, calls)) == [True] * len(calls)
    finally:
        server.process.resume()
    assert await read(short, "hung/kept") == b"kept"
    assert await is_missing_or(short, "hung/blob", b"x")
    await short.put("hung/again", stream(b"x"))


@pytest.mark.parametrize("error", [Broken, asyncio.CancelledError])
async def test_a_stream_that_breaks_under_a_server_that_hangs_is_reported_as_it_broke(
    server: SeaweedFS, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    """Tidying up has its time; when that is over, what went wrong is still what is reported."""
    monkeypatch.setattr(s3_writing, "_TIDY_SECONDS", 1.0)
    store = S3Blobs(server.url(BUCKET))
    await store.open()

    async def breaking() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b"x" * 1024 * 1024
        server.process.pause()
        raise error

    try:
        with pytest.raises(error):
            await store.put("broken/blob", breaking())
    finally:
        server.process.resume()
    assert "an unfinished blob may be left at broken/blob" in caplog.text
    with closing(server.client()) as client:

        async def tidied() -> bool:
            return "Uploads" not in client.list_multipart_uploads(Bucket=BUCKET, Prefix="broken/")

        await until(tidied)
    assert await is_missing(store, "broken/blob")
    await store.close()


async def test_a_cancelled_read_does_not_wait_for_a_server_that_hangs(server: SeaweedFS) -> None:
    """Readiness asks with a deadline of its own, which has to hold."""
    patient = S3Blobs(server.url(BUCKET), deadline=300.0)
    await patient.open()
    await patient.put("cancelled/blob", stream(b"x"))
    server.process.pause()
    try:
        async with asyncio.timeout(60):
            for call in (keys(patient), patient.size("cancelled/blob"), patient.checked_digest("cancelled/blob")):
                asking = asyncio.ensure_future(call)
                await asyncio.sleep(0.1)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
    finally:
        server.process.resume()
    assert await read(patient, "cancelled/blob") == b"x"
    await patient.close()

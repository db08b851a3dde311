"""An S3 server goes away or hangs under a store: what S3 promises beyond `tests.contracts.test_blobs_outages`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from milepost_backends.contract import StorageUnavailable
from milepost_backends.s3 import writing as s3_writing
from milepost_backends.s3.blobs import S3Blobs
from testbed.seaweedfs import SeaweedFS
from tests.contracts.streams import Broken, is_missing, read, stream
from tests.support.servers.s3 import BUCKET, running
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.later]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    """One that may be stopped."""
    with running(tmp_path_factory.mktemp("seaweedfs")) as started:
        yield started


async def test_a_deletion_that_a_server_which_is_away_was_asked_for_never_happens(server: SeaweedFS) -> None:
    store = S3Blobs(server.url(BUCKET), deadline=3.0)
    await store.open()
    await store.put("stopped/kept", stream(b"kept"))
    server.stop()
    for call in (store.delete("stopped/kept"), read(store, "stopped/kept")):
        with pytest.raises(StorageUnavailable, match=f" at {urlsplit(server.endpoint_url).netloc}"):
            await call
    server.start()
    assert await read(store, "stopped/kept") == b"kept"
    await store.close()


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

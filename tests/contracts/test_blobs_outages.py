"""Every blob store on a server: the server goes away, hangs and comes back under a store that stays open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import pytest

from milepost_backends.contract import BlobStore
from tests.contracts.outages import BLOB_SERVERS, BlobPlace, Breakable, Server, mended
from tests.contracts.streams import is_missing, is_missing_or, is_unavailable, keys, read, stream

pytestmark = [pytest.mark.anyio, pytest.mark.later]

BlobServer = Server[BlobPlace]


@pytest.fixture(scope="module", params=BLOB_SERVERS)
def _running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlobServer]:
    backend: Breakable[BlobPlace] = request.param
    with backend.running(tmp_path_factory.mktemp(backend.name)) as server:
        yield server


@pytest.fixture
def server(_running: BlobServer) -> Iterator[BlobServer]:
    """A server that may be stopped."""
    with mended(_running):
        yield _running


@pytest.fixture
def place(server: BlobServer) -> BlobPlace:
    """A fresh place there."""
    return server.place()


@pytest.fixture
async def store(place: BlobPlace) -> AsyncIterator[BlobStore]:
    """A store on it that waits for a few seconds only."""
    blobs = place.build()
    await blobs.open()
    yield blobs
    await blobs.close()


async def tells_digests(store: BlobStore, key: str) -> bool:
    """Whether it is a store that checks digests; others say nothing of them, and need not ask their server for that."""
    return await store.checked_digest(key) is not None


async def test_a_server_that_stops_and_starts_again(server: BlobServer, place: BlobPlace, store: BlobStore) -> None:
    """Every call says that the store is unavailable, and the same object goes on afterwards."""
    await store.put("kept", stream(b"kept"))
    digests, signs = await tells_digests(store, "kept"), await store.sign_get("kept", 60.0) is not None
    server.stop()
    later = place.build()
    calls = (
        later.open(),
        store.put("blob", stream(b"x")),
        store.put("large", stream(b"x" * 6_000_000)),
        store.size("kept"),
        read(store, "kept"),
        keys(store),
        store.delete("other"),  # which may yet be carried out
    )
    assert await asyncio.gather(*map(is_unavailable, calls)) == [True] * len(calls)
    assert await is_unavailable(store.checked_digest("kept")) is digests
    assert (await store.sign_get("kept", 60.0) is not None) is signs  # nobody has to be asked for that
    server.start()
    await later.open()
    for each in (store, later):
        assert await read(each, "kept") == b"kept"
        assert await is_missing(each, "blob")
    assert await keys(store) == ["kept"]
    await store.put("blob", stream(b"x"))
    await later.close()


async def test_a_server_that_hangs(server: BlobServer, store: BlobStore) -> None:
    """Nothing waits for ever; what was on its way when it woke up is whole or not there, and others are as before."""
    await store.put("kept", stream(b"kept"))
    digests = await tells_digests(store, "kept")
    server.hang()
    calls = (
        store.put("blob", stream(b"x")),
        store.size("kept"),
        read(store, "kept"),
        store.delete("other"),
        keys(store),
    )
    told = await asyncio.gather(*map(is_unavailable, (*calls, store.checked_digest("kept"))))
    assert told == [*[True] * len(calls), digests]
    server.wake()
    assert await read(store, "kept") == b"kept"
    assert await is_missing_or(store, "blob", b"x")
    await store.put("again", stream(b"x"))


async def test_a_cancelled_call_does_not_wait_for_a_server_that_hangs(server: BlobServer, place: BlobPlace) -> None:
    """Readiness asks with a deadline of its own, which has to hold."""
    patient = place.build(patient=True)
    await patient.open()
    await patient.put("blob", stream(b"x"))
    calls: list[Coroutine[Any, Any, object]] = [keys(patient), patient.size("blob"), read(patient, "blob")]
    if await tells_digests(patient, "blob"):
        calls.append(patient.checked_digest("blob"))
    server.hang()
    async with asyncio.timeout(60):
        for call in calls:
            asking = asyncio.ensure_future(call)
            await asyncio.sleep(0.1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
    server.wake()
    assert await read(patient, "blob") == b"x"
    await patient.close()

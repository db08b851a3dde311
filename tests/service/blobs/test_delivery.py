"""Bytes on their way out, when they go away at a bad context."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from milepost.errors import BlobMissing, Corrupt
from service.basics.streams import stream_of
from service.blobs.delivery import AHEAD_BYTES, deliver_rest
from service.blobs.intake import Incoming, take_in
from service.operations.reading import Span
from tests.service.acting import STORE, actor
from tests.support.servers.replicas import embedded, rig

pytestmark = pytest.mark.anyio

LARGE = b"x" * 3_000_000
SMALL = b"x" * 10_000


@pytest.mark.parametrize("span", [Span(0, len(LARGE)), Span(5, 10)], ids=["whole", "range"])
async def test_bytes_that_are_deleted_before_the_read_are_reported_before_any_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: Span
) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", LARGE)
        real = running.blobs.size

        async def size(key: str) -> int:
            found = await real(key)
            await running.blobs.real.delete(key)
            return found

        monkeypatch.setattr(running.blobs, "size", size)
        with pytest.raises(BlobMissing):
            await running.operations.reader.read(STORE, "pointer", None, lambda _: span)


async def test_bytes_that_were_replaced_meanwhile_are_read_in_their_newer_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        added = await a.add("pointer", LARGE)
        real = running.blobs.size

        async def size(key: str) -> int:
            monkeypatch.undo()
            found = await real(key)
            await a.replace("pointer", added.version, LARGE[::-1] + b"newer")
            await running.blobs.real.delete(key)
            return found

        monkeypatch.setattr(running.blobs, "size", size)
        delivery = await running.operations.reader.read(STORE, "pointer", None, lambda handle: Span(0, handle.size))
        assert b"".join([chunk async for chunk in delivery.chunks]) == LARGE + b"newer"


@pytest.mark.parametrize("start", [0, 5], ids=["whole", "rest"])
async def test_a_delivery_that_nobody_reads_on_holds_no_more_than_is_counted_for_it(tmp_path: Path, start: int) -> None:
    """It has sent some chunks, and the next one waits for the reader."""
    content, count = b"x" * 20_000_000, 16
    async with rig(embedded(tmp_path)) as running:
        key = f"{running.replica.journal.deployment}/{STORE}/1/large"
        ref = await take_in(running.replica.blobs, key, Incoming(stream_of(content)), None)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            stalled = []
            for _ in range(count):
                chunks = await deliver_rest(running.replica.blobs, ref, start)
                stalled.append((chunks, [len(await anext(chunks)) for _ in range(3)], await anext(chunks)))
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (after - before) / count < AHEAD_BYTES
        del stalled


async def test_a_small_state_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).add("pointer", SMALL)
        monkeypatch.setattr(running.blobs, "size", lambda _: pytest.fail("it was looked at before"))
        delivery = await running.operations.reader.read(STORE, "pointer", None, lambda handle: Span(0, handle.size))
        assert b"".join([chunk async for chunk in delivery.chunks]) == SMALL


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (SMALL[:-1], "9999 bytes are stored, but the record says 10000"),
        (SMALL + b"x", "10001 bytes are stored, but the record says 10000"),
        (b"", "0 bytes are stored, but the record says 10000"),
        (SMALL[:-1] + b"y", "do not match their digest"),
    ],
    ids=["shorter", "longer", "empty", "altered"],
)
async def test_a_small_state_that_was_altered_is_not_delivered(tmp_path: Path, stored: bytes, why: str) -> None:
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).add("pointer", SMALL)
        (blob,) = (path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and path.stat().st_size == 10_000)
        blob.write_bytes(stored)
        with pytest.raises(Corrupt, match=why):
            await running.operations.reader.read(STORE, "pointer", None, lambda handle: Span(0, handle.size))

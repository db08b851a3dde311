"""Bytes on their way out, when they go away at a bad context."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from milepost.errors import BlobMissing, Corrupt
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.delivery import AHEAD_BYTES, deliver_rest
from milepost_server.blobs.intake import Incoming, take_in
from milepost_server.model.records import Handle
from milepost_server.operations.states import Span
from tests.service.acting import STORE, actor
from tests.support.servers.replicas import embedded, rig

pytestmark = pytest.mark.anyio

LARGE = b"x" * 3_000_000
SMALL = b"x" * 10_000


@pytest.mark.parametrize("span", [Span(0, len(LARGE)), Span(5, 10)], ids=["whole", "range"])
async def test_bytes_that_are_deleted_before_the_read_are_reported_before_any_is_sent(
    tmp_path: Path, span: Span
) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", LARGE)
        await running.blobs.real.delete(running.blobs.put_keys[-1])
        with pytest.raises(BlobMissing):
            await running.operations.reader.read(STORE, "pointer", None, lambda _: span)


async def test_bytes_that_were_replaced_meanwhile_are_read_in_their_newer_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        added = await a.add("pointer", LARGE)

        async def get(key: str, start: int, end: int | None, *, size: int) -> AsyncIterator[bytes]:
            monkeypatch.undo()
            await a.replace("pointer", added.version, LARGE[::-1] + b"newer")
            await running.blobs.real.delete(key)
            async for chunk in running.blobs.real.get(key, start, end, size=size):
                yield chunk

        monkeypatch.setattr(running.blobs, "get", get)
        delivery = await running.operations.reader.read(STORE, "pointer", None, lambda handle: Span(0, handle.size))
        assert b"".join([chunk async for chunk in delivery.chunks]) == LARGE[::-1] + b"newer"


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


BOTH = pytest.mark.parametrize("state", [SMALL, LARGE], ids=["small", "large"])


@BOTH
async def test_a_state_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: bytes) -> None:
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).add("pointer", state)
        monkeypatch.setattr(running.blobs, "size", lambda _: pytest.fail("it was looked at before"))
        for span in (Span(0, len(state)), Span(5, 9_000)):
            delivery = await running.operations.reader.read(STORE, "pointer", None, partial(_always, span))
            assert b"".join([chunk async for chunk in delivery.chunks]) == state[span.start : span.end]


@BOTH
@pytest.mark.parametrize("change", [-1, 1, None], ids=["shorter", "longer", "empty"])
@pytest.mark.parametrize("span", [None, Span(5, 10)], ids=["whole", "range"])
async def test_a_state_of_another_size_is_refused_before_any_byte_is_sent(
    tmp_path: Path, state: bytes, change: int | None, span: Span | None
) -> None:
    stored = b"" if change is None else (state + b"x")[: len(state) + change]
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).add("pointer", state)
        blob_of(tmp_path, state).write_bytes(stored)
        with pytest.raises(Corrupt, match=f"{len(stored)} bytes are stored, but the record says {len(state)}"):
            await running.operations.reader.read(STORE, "pointer", None, lambda _: span or Span(0, len(state)))


@pytest.mark.parametrize("span", [Span(0, len(SMALL)), Span(5, 10)], ids=["whole", "range"])
async def test_a_small_state_that_was_altered_is_not_delivered(tmp_path: Path, span: Span) -> None:
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).add("pointer", SMALL)
        blob_of(tmp_path, SMALL).write_bytes(SMALL[:-1] + b"y")
        with pytest.raises(Corrupt, match="do not match their digest"):
            await running.operations.reader.read(STORE, "pointer", None, lambda _: span)


def _always(span: Span, _: Handle) -> Span:
    return span


def blob_of(directory: Path, state: bytes) -> Path:
    """The file that holds a state."""
    files = [path for path in (directory / "blobs").rglob("*") if path.is_file()]
    (blob,) = (path for path in files if path.read_bytes() == state)
    return blob

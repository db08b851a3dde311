"""Bytes on their way out, when they go away at a bad context."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import BlobMissing
from service.operations.reading import Span
from tests.service.acting import STORE, actor
from tests.support.servers.replicas import embedded, rig

pytestmark = pytest.mark.anyio

LARGE = b"x" * 3_000_000


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

"""Readiness: a line for each part, and cheap however much is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from milepost_backends.contract import BlobInfo, StorageUnavailable
from milepost_server.replica import probes
from tests.support.servers.replicas import Rig, embedded, rig
from tests.support.skipping import BACKEND, skip

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    """A loop on which deadlines run out when a test says so."""
    return BACKEND


async def lines(running: Rig, *exclude: str) -> dict[str, bool]:
    """Whether each part is well, of those that are asked."""
    return {line.part: line.ok for line in await running.probes().run(exclude)}


async def test_a_part_that_does_not_answer_is_told_apart(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        assert await lines(running) == {"leadership": True, "records": True, "pointers": True, "blobs": True}
        running.blobs.lists.from_now_on(StorageUnavailable("gone"))
        assert await lines(running) == {"leadership": True, "records": True, "pointers": True, "blobs": False}
        running.blobs.lists.heal()
        assert await lines(running) == {"leadership": True, "records": True, "pointers": True, "blobs": True}


async def test_the_first_blob_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million blobs take many requests to list; to see that they can be listed must not."""
    given = 0

    async def many(prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        nonlocal given
        del prefix
        for number in range(1_000_000):
            given += 1
            if older_than <= 1.0:
                yield BlobInfo(f"a/{number}", 1, 1.0)

    async with rig(embedded(tmp_path)) as running:
        monkeypatch.setattr(running.blobs, "list", many)
        assert (await lines(running))["blobs"]
        assert given == 1


async def test_a_part_that_lets_nobody_go_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a listing in a thread does; the fake is stuck at a chosen context."""
    asked, free = asyncio.Event(), asyncio.Event()

    async def listing(prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        asked.set()
        while not free.is_set():
            with suppress(asyncio.CancelledError):
                await free.wait()
        yield BlobInfo(prefix, 1, older_than)

    async with rig(embedded(tmp_path)) as running:
        monkeypatch.setattr(running.blobs, "list", listing)
        probing = asyncio.create_task(lines(running))
        await asyncio.wait_for(asked.wait(), 60.0)
        skip(probes._PROBE_SECONDS + 0.1, running.clock)
        assert await probing == {"leadership": True, "records": True, "pointers": True, "blobs": False}
        free.set()


async def test_a_part_that_is_left_out_is_not_asked(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        running.blobs.lists.from_now_on(StorageUnavailable("gone"))
        assert await lines(running, "blobs") == {"leadership": True, "records": True, "pointers": True}
        assert await lines(running, "leadership", "pointers") == {"records": True, "blobs": False}

"""The records and blobs of a frozen job, page by page: a page takes no longer for what it leaves out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milepost.wire import cells_digest
from milepost_server.model.requests.base import Attempt, BlobRef
from milepost_server.model.requests.handles import PlaceJob
from milepost_server.operations import moving
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE, actor
from tests.service.operations.test_cloning import SETTINGS
from tests.support.files import put
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio

OF_A_CELL = replace(SETTINGS, journal=replace(SETTINGS.journal, cell="a", cells=("a", "b")), inline_below=0)


async def led(running: Rig) -> int:
    await running.operations.perform(PlaceJob(Attempt(""), STORE, cells_digest(("a", "b"))))
    return await (await actor(running, "a")).campaign()


async def frozen(running: Rig, epoch: int) -> None:
    await running.operations.moving.freeze(Caller(Attempt("a"), epoch), STORE, "move", "b")


async def pages(running: Rig) -> AsyncIterator[list[dict[str, Any]]]:
    after: str | None = ""
    while after is not None:
        body = (await running.operations.moving.records(STORE, after)).answer.body
        yield body["records"]
        after = body["next"]


async def test_a_page_looks_at_so_many_records_whether_it_shows_them_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_MOST_LOOKED_AT", 5)
    async with rig(embedded(tmp_path), OF_A_CELL) as running:
        epoch = await led(running)
        for path in (*(f"gone/{number:02}" for number in range(20)), "here/1", "there/2"):
            await put(running, path, epoch)
        await running.operations.trees.delete(At(STORE, "gone"), epoch, recursive=True)
        await frozen(running, epoch)
        found = [page async for page in pages(running)]
    assert len(found) >= 4
    files = [each["record"]["path"] for page in found for each in page if each["kind"] == "file"]
    assert {"here/1", "there/2"} <= {*files}
    assert not [path for path in files if path.startswith("gone")]


async def test_another_leader_gives_the_blobs_that_only_a_manifest_names(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), OF_A_CELL) as running:
        epoch = await led(running)
        for number in range(4):
            await put(running, f"checkpoint/{number}", epoch, b"bytes %d" % number * 100)
        await running.replica._compaction.compact(STORE)
        await frozen(running, epoch)
        (entry,) = [
            each["record"]["entries"][0]
            async for page in pages(running)
            for each in page
            if each["record"].get("path") == "checkpoint/3"
        ]
    async with rig(embedded(tmp_path), OF_A_CELL) as running:
        ref = BlobRef(entry["blob"], entry["size"], entry["sha256"])
        chunks = [chunk async for chunk in await running.operations.moving.blob(STORE, ref)]
    assert b"".join(chunks) == b"bytes 3" * 100

"""Records that have not changed for long go into manifests; whoever reads notices nothing, a new leader neither."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from sortedcontainers import SortedList

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.loop_time import TURN_SECONDS
from milepost_server.model.paths import path_key
from milepost_server.model.records import Record, Store, store_key
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.trees import DropSavepoint, MakeSavepoint, OntoExisting
from milepost_server.model.trees import Entry, Manifest, Tree, TreePath
from milepost_server.operations.trees import At
from tests.service.acting import STORE, actor
from tests.support.files import put, read
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

FOLDING = replace(
    PROMPT, maintenance_interval_seconds=0.02, linger_seconds=0.0, compact_from=20, compact_after_seconds=0.0
)


def content_of(path: str) -> bytes:
    """The bytes of a file: few for every other one, which are kept in its record."""
    name = path.rpartition("/")[2]
    return b"small" if name.endswith(("0", "2", "4", "6", "8")) else f"the bytes of {name}".encode()


async def put_one(running: Rig, path: str, epoch: int) -> None:
    """Put a file, the small ones with their bytes in the record."""
    content = content_of(path)
    await put(running, path, epoch, content, inline=content == b"small")


async def listed(running: Rig, path: str) -> list[str]:
    """The names in a directory."""
    await running.operations.trees.ready(STORE)
    return [name for name, _ in await running.operations.trees.children(At(STORE, path))]


def manifests(running: Rig) -> tuple[Manifest, ...]:
    """The manifests that the tree has."""
    tree = running.replica.journal.read().view.tree(STORE)
    return tree.manifests if isinstance(tree, Tree) else ()


async def compacted(running: Rig) -> None:
    """Wait until there is one manifest, and too few paths have a record of their own to make another."""

    async def are_few() -> bool:
        own = list(running.replica.journal.read().view.state.own_paths(STORE))
        return len(own) < FOLDING.compact_from and len(manifests(running)) == 1

    await until(are_few)


async def test_files_without_a_byte_stay_readable_though_nothing_else_is_folded_with_them(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), FOLDING) as running:
        epoch = await (await actor(running, "a")).campaign()
        names = [f"state/{number:02}" for number in range(FOLDING.compact_from)]
        for name in names:
            await put(running, name, epoch, b"", inline=True)
        await compacted(running)
        for _ in range(2):
            for name in names:
                assert await read(running, name) == b""
            report = (await running.operations.snapshots.verify(STORE, digests=True)).answer.body
            assert (report["files"], report["damaged"]) == (len(names), [])
            await running.restart()


async def test_files_are_read_listed_renamed_and_deleted_as_before(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), FOLDING) as running:
        epoch = await (await actor(running, "a")).campaign()
        names = [f"{number:02}" for number in range(40)]
        for name in names:
            await put_one(running, f"state/{name}", epoch)
        await compacted(running)
        for _ in range(2):
            assert await listed(running, "") == ["state"]
            assert await listed(running, "state") == names
            for name in names:
                assert await read(running, f"state/{name}") == content_of(
                    name if name[-1] in "02468" else f"state/{name}"
                )
            await running.restart()
        trees = running.operations.trees
        await trees.ready(STORE)
        assert await trees.delete(At(STORE, "state/07"), epoch, recursive=False)
        assert await trees.rename(At(STORE, "state/08"), "state/x", epoch, OntoExisting.REFUSE)
        await put_one(running, "state/09", epoch)
        with pytest.raises(Problem) as refused:
            await read(running, "state/07")
        assert refused.value.code is Code.NOT_EXIST
        assert await read(running, "state/x") == b"small"
        after = sorted({*names, "x"} - {"07", "08"})
        assert await listed(running, "state") == after
        await running.restart()
        assert await listed(running, "state") == after


async def test_manifests_are_merged_and_what_nothing_shows_goes_with_its_bytes(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), FOLDING) as running:
        epoch = await (await actor(running, "a")).campaign()
        trees, names = running.operations.trees, [f"{number:03}" for number in range(200)]
        for name in names:
            await put_one(running, f"state/{name}", epoch)
        for name in names[:180]:
            assert await trees.delete(At(STORE, f"state/{name}"), epoch, recursive=False)
        for name in names[:40]:
            await put_one(running, f"later/{name}", epoch)
        for name in names[:40]:
            assert await trees.delete(At(STORE, f"later/{name}"), epoch, recursive=False)

        await compacted(running)
        assert manifests(running)[0].rows < 100
        await running.emptied_trash()
        assert await listed(running, "state") == names[180:]
        assert await listed(running, "later") == []
        alone = [name for name in names[:180] if name[-1] not in "02468"]
        assert len(running.blobs.discarded) >= len(alone)
        for name in names[180:]:
            assert await read(running, f"state/{name}") == content_of(name)


async def test_what_only_a_pin_showed_goes_with_it_though_nothing_else_is_folded(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), FOLDING) as running:
        epoch = await (await actor(running, "a")).campaign()
        names = [f"state/{number:02}" for number in range(FOLDING.compact_from)]
        for name in names:
            await put(running, name, epoch)
        await put(running, "commits/0", epoch, inline=True)
        attempt = Attempt("a")
        await running.operations.perform(MakeSavepoint(attempt, STORE, "before-upgrade", 0))
        for name in names:
            assert await running.operations.trees.delete(At(STORE, name), epoch, recursive=False)
        for batch in range(1, 11):
            await put(running, f"commits/{batch}", epoch, inline=True)
        await compacted(running)
        await running.operations.perform(DropSavepoint(attempt, STORE, "before-upgrade"))

        async def are_gone() -> bool:
            return len(running.blobs.discarded) >= len(names)

        await until(are_gone)


async def test_a_manifest_that_is_damaged_or_gone_is_named_and_nothing_is_served_from_it(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), FOLDING) as running:
        epoch = await (await actor(running, "a")).campaign()
        for number in range(40):
            await put_one(running, f"state/{number}", epoch)
        await compacted(running)
        (manifest,) = manifests(running)
        (path,) = (tmp_path / "blobs").rglob(manifest.blob.rpartition("/")[2])
        whole = path.read_bytes()
        for damaged in (whole.replace(b"state/7", b"state/X"), whole[:-1], None):
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            await running.restart()
            with pytest.raises(Problem, match=manifest.blob) as refused:
                await running.operations.trees.ready(STORE)
            assert refused.value.code is Code.CORRUPT
            with pytest.raises(Problem, match="manifest"):
                await put_one(running, "state/new", epoch)
        path.write_bytes(whole)
        assert await read(running, "state/7") == content_of("7")


async def test_no_request_waits_until_all_stores_were_looked_at(tmp_path: Path) -> None:
    """Each look takes a whole slice, as it seems; then the loop must turn after each few."""
    count = 300
    async with rig(embedded(tmp_path)) as running:
        state = running.replica.journal.read().view.state
        changes: list[tuple[str, Record | None]] = []
        for number in range(count):
            store, path = f"s{number:03}", TreePath("a", (Entry(1, "2026-01-01T00:00:00.000Z", 1, data=b""),))
            changes += [(store_key(store), Store(store, epoch=1)), (path_key(store, path.path), path)]
        state.apply(changes)
        looks: list[int] = [0]

        class Paths:
            """One path, as far as anybody counts them."""

            def __len__(self) -> int:
                looks[-1] += 1
                running.clock.advance(TURN_SECONDS)
                return 1

        for of_store in state._store_indexes.values():
            of_store.paths = cast("SortedList[str]", Paths())
        running.replica._compaction._settings = replace(FOLDING, maintenance_interval_seconds=0.0)
        task = asyncio.create_task(running.replica._compaction.run())
        while sum(looks) < count:
            await asyncio.sleep(0)
            looks.append(0)
        task.cancel()
        assert max(looks) <= 8

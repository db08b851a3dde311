"""A manifest that is damaged where it is stored is written anew by the leader that has it in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.loop_time import TURN_SECONDS
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.records import Store, store_key, tree_key
from milepost_server.model.trees import Manifest, Tree
from tests.service.acting import STORE, actor
from tests.support.files import put, read
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.states import stored_states
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

FOLDING = replace(PROMPT, inline_below=100, compact_from=10, compact_after_seconds=0.0)


async def compacted(running: Rig) -> None:
    """Put files and compact them."""
    epoch = await (await actor(running, "a")).campaign()
    for number in range(12):
        await put(running, f"state/{number:02}", epoch, b"content of %d" % number, inline=True)
    await running.replica._compaction.compact(STORE)


def manifest(running: Rig) -> Manifest:
    """The only manifest of the tree."""
    tree = running.replica.journal.read().view.tree(STORE)
    assert isinstance(tree, Tree)
    (only,) = tree.manifests
    return only


def stored_at(directory: Path, blob: str) -> Path:
    return next((directory / "blobs").rglob(blob.rpartition("/")[2]))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def change_a_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"state/05", b"state/95"))


@pytest.mark.parametrize("damage", [cut_short, change_a_byte, Path.unlink])
async def test_a_damaged_manifest_is_written_anew_from_memory(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    async with rig(embedded(tmp_path), FOLDING) as running:
        await compacted(running)
        before = manifest(running)
        damage(stored_at(tmp_path, before.blob))
        await running.replica.manifest_check.check(STORE)
        anew = manifest(running)
        assert anew.blob != before.blob
        assert (anew.size, anew.sha256, anew.rows) == (before.size, before.sha256, before.rows)
        await running.emptied_trash()
        assert before.blob not in await stored_states(running.replica.blobs)
        await running.restart()
        assert await read(running, "state/05") == b"content of 5"


async def test_a_whole_manifest_stays_as_it_is(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), FOLDING) as running:
        await compacted(running)
        before, blobs = manifest(running), await stored_states(running.replica.blobs)
        await running.replica.manifest_check.check(STORE)
        assert manifest(running) == before
        assert await stored_states(running.replica.blobs) == blobs


async def test_one_that_is_not_in_memory_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), FOLDING) as running:
        await compacted(running)
        before = manifest(running)
        await running.stop()
        cut_short(stored_at(tmp_path, before.blob))
        await running.start()
        await running.replica.manifest_check.check(STORE)
        assert manifest(running) == before
        with pytest.raises(Problem) as refused:
            await read(running, "state/05")
        assert refused.value.code is Code.CORRUPT
        assert before.blob in refused.value.detail


async def test_a_manifest_that_was_merged_meanwhile_is_not_brought_back(tmp_path: Path) -> None:
    """The check has found damage, and then finds another manifest in the place of the damaged one."""
    async with rig(embedded(tmp_path), FOLDING) as running:
        await compacted(running)
        state, before = running.replica.journal.read().view.state, manifest(running)
        rows = state.rows(before.blob)
        assert rows is not None
        check = running.replica.manifest_check
        await asyncio.gather(*(check._write_anew(STORE, before, ManifestRows(rows.content), "it is") for _ in range(2)))
        await running.emptied_trash()
        left = set(await stored_states(running.replica.blobs))
        assert manifest(running).blob in left
        assert before.blob not in left
        assert len(left) == 2, "the manifest and the pack"


async def test_the_leader_checks_by_itself(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), replace(FOLDING, collect_interval_seconds=0.05)) as running:
        await compacted(running)
        before = manifest(running)
        stored_at(tmp_path, before.blob).unlink()

        async def is_anew() -> bool:
            return manifest(running).blob != before.blob

        await until(is_anew)


async def test_no_request_waits_until_all_stores_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes a whole slice, as it seems; then the loop must turn after each few."""
    count = 300
    async with rig(embedded(tmp_path)) as running:
        state = running.replica.journal.read().view.state
        for number in range(count):
            store = f"s{number:03}"
            tree = Tree(store, manifests=(Manifest(f"blob of {store}", 1, "0" * 64, 1),))
            state.apply([(store_key(store), Store(store, epoch=1)), (tree_key(store), tree)])
        looks: list[int] = [0]

        def none(_: str) -> None:
            looks[-1] += 1
            running.clock.advance(TURN_SECONDS)

        monkeypatch.setattr(state, "rows", none)
        task = asyncio.create_task(running.replica.manifest_check.run(0.0))
        while sum(looks) < count:
            await asyncio.sleep(0)
            looks.append(0)
        task.cancel()
        assert max(looks) <= 8

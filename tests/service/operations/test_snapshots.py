"""A tree can be read as it was at a snapshot or a savepoint, in ``.snapshot``, as HDFS has it; nothing can be
written there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics import loop_time
from milepost_server.model.records import tree_key
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.trees import DropSavepoint, MakeSavepoint, OntoExisting
from milepost_server.model.trees import Entry, Tree
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE, actor
from tests.support.files import put, read
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig

pytestmark = pytest.mark.anyio

FOLDING = replace(PROMPT, compact_from=2, compact_after_seconds=0.0)


async def listed(running: Rig, path: str) -> list[str]:
    await running.operations.trees.ready(STORE)
    return [name for name, _ in await running.operations.trees.children(At(STORE, path))]


async def kept(running: Rig, epoch: int) -> int:
    """Commit three batches, of which the second is pinned; return its revision."""
    revision = 0
    for batch in range(3):
        await put(running, "state/0", epoch, b"state %d" % batch)
        await put(running, f"state/of {batch}", epoch, inline=True)
        await put(running, f"commits/{batch}", epoch, b"v1", inline=True)
        if batch == 1:
            caller = Caller(Attempt("a"), epoch)
            reply = await running.operations.perform(MakeSavepoint(caller.attempt, STORE, "before-upgrade", 0))
            revision = reply.answer.body["revision"]
    assert await running.operations.trees.delete(At(STORE, "state/of 0"), epoch, recursive=False)
    await put(running, "state/.later.tmp", epoch)
    return int(revision)


@pytest.mark.parametrize("compacted", [False, True], ids=["records", "manifest"])
async def test_a_snapshot_shows_what_was_there(tmp_path: Path, compacted: bool) -> None:
    async with rig(embedded(tmp_path), FOLDING) as running:
        epoch = await (await actor(running, "a")).campaign()
        revision = await kept(running, epoch)
        if compacted:
            await running.replica._compaction.compact(STORE)
        for name in ("before-upgrade", f"@{revision}"):
            assert await listed(running, f".snapshot/{name}") == ["commits", "state"]
            assert await listed(running, f".snapshot/{name}/commits") == ["0", "1"]
            assert await listed(running, f".snapshot/{name}/state") == ["0", "of 0", "of 1"]
            assert await read(running, f".snapshot/{name}/state/0") == b"state 1"
        assert await read(running, "state/0") == b"state 2"
        assert await listed(running, "state") == [".later.tmp", "0", "of 1", "of 2"]

        page = await running.operations.trees.children(At(STORE, ".snapshot/before-upgrade/state"), "0", 1)
        assert [name for name, _ in page] == ["of 0"]
        only = await running.operations.trees.children(At(STORE, ".snapshot/before-upgrade/state/0"))
        assert [name for name, _ in only] == [""]


async def test_a_listing_of_a_snapshot_that_goes_meanwhile_does_not_end_as_if_it_were_whole(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        await kept(running, epoch)
        state = running.replica.journal.read().view.state
        tree = state.tree(STORE)
        assert isinstance(tree, Tree)
        names: list[str] = []

        def drop_savepoint(name: str, _: Entry) -> None:
            names.append(name)
            state.apply([(tree_key(STORE), msgspec.structs.replace(tree, savepoints=()))])

        with pytest.raises(Problem) as gone:
            await running.operations.trees.each_child(At(STORE, ".snapshot/before-upgrade/state"), drop_savepoint)
        assert gone.value.code is Code.NOT_EXIST
        assert names == ["0"]


async def test_snapshots_are_listed_in_their_own_directory_only(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        await kept(running, epoch)
        snapshots = (await running.operations.snapshots.kept(STORE)).answer.body["snapshots"]
        names = sorted(["before-upgrade", *(f"@{snapshot['revision']}" for snapshot in snapshots)])
        assert await listed(running, ".snapshot") == names
        assert [name for name, _ in await running.operations.trees.children(At(STORE, ".snapshot"), names[1], 1)] == [
            names[2]
        ]
        assert await listed(running, "") == ["commits", "state"]
        assert running.operations.trees.entry(At(STORE, ".snapshot")).directory

        await running.operations.perform(DropSavepoint(Attempt("a"), STORE, "before-upgrade"))
        for path in (".snapshot/before-upgrade", ".snapshot/before-upgrade/state/0", ".snapshot/@1", ".snapshot/1"):
            with pytest.raises(Problem) as gone:
                running.operations.trees.entry(At(STORE, path))
            assert gone.value.code is Code.NOT_EXIST


async def test_nothing_is_written_into_a_snapshot(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch, trees = await (await actor(running, "a")).campaign(), running.operations.trees
        await kept(running, epoch)
        inside = At(STORE, ".snapshot/before-upgrade/state/0")
        acts = (
            lambda: put(running, inside.path, epoch),
            lambda: put(running, ".snapshot", epoch),
            lambda: trees.make_directory(At(STORE, ".snapshot/another"), epoch),
            lambda: trees.rename(inside, "state/1", epoch, OntoExisting.REFUSE),
            lambda: trees.rename(At(STORE, "state/0"), ".snapshot/0", epoch, OntoExisting.REPLACE),
            lambda: trees.delete(inside, epoch, recursive=False),
            lambda: trees.delete(At(STORE, ".snapshot"), epoch, recursive=True),
        )
        for act in acts:
            with pytest.raises(Problem, match=r"cannot be written: \.snapshot is read-only") as refused:
                await act()
            assert refused.value.code is Code.FORBIDDEN
        with pytest.raises(Problem) as early:
            trees.may_put(inside, epoch, overwrite=True, parents=True)
        assert early.value.code is Code.FORBIDDEN
        assert await read(running, inside.path) == b"state 1"
        await put(running, "state/.snapshot", epoch)
        assert ".snapshot" in await listed(running, "state")


@pytest.mark.parametrize("batch", [1, 2, 64])
async def test_a_summary_of_all_snapshots_is_the_same_in_slices_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Snapshots sort by name and paths by letters: `/` comes between the letters that a name may have."""
    monkeypatch.setattr(loop_time, "_BATCH", batch)
    async with rig(embedded(tmp_path), PROMPT) as running:
        epoch = await (await actor(running, "a")).campaign()
        await put(running, "state/0", epoch, b"state", inline=True)
        await put(running, "commits/0", epoch, b"v1", inline=True)
        for name in ("a", "a-b", "a0"):
            await running.operations.perform(MakeSavepoint(Attempt("a"), STORE, name, 0))
        found = await running.operations.trees.summary(At(STORE, ".snapshot"))
        assert (found.files, found.directories, found.bytes) == (4 * 2, 1 + 4 * 3, 4 * 7)
        found = await running.operations.trees.summary(At(STORE, ".snapshot/a-b"))
        assert (found.files, found.directories, found.bytes) == (2, 3, 7)
        found = await running.operations.trees.summary(At(STORE, ""))
        assert (found.files, found.directories, found.bytes) == (2, 3, 7)

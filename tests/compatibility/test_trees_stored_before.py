"""A tree of files that an earlier version stored shows what it did, and drivers go on with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.model.records import Store
from milepost_server.model.trees import Tree
from milepost_server.operations.trees import At
from milepost_server.rules.trees.visibility import visible_at
from tests.compatibility.trees import RECORDED, TreeHistory
from tests.corrupt.trial import SETTINGS
from tests.service.acting import STORE
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio


def shown(running: Rig, batch: int) -> set[str]:
    """The files that the snapshot of a batch shows."""
    state = running.replica.journal.read().view.state
    store, tree = state.store(STORE), state.tree(STORE)
    assert isinstance(store, Store)
    assert isinstance(tree, Tree)
    (snapshot,) = (snapshot for snapshot in tree.snapshots if snapshot.batch == batch)
    records = {path: state.path(STORE, path) for path in state.paths(STORE, "")}
    entries = {path: visible_at(record, snapshot.revision, store, tree) for path, record in records.items()}  # type: ignore[arg-type]
    return {path for path, entry in entries.items() if entry is not None and not entry.directory}


async def test_what_was_stored_of_a_tree_is_served_as_it_was_and_goes_on(tmp_path: Path) -> None:
    for part in ("pointers", "blobs"):
        shutil.copytree(RECORDED / part, tmp_path / part)
    history = TreeHistory.read()
    async with rig(embedded(tmp_path), SETTINGS) as running:
        assert running.replica.journal.damaged == []
        before, trees = history.epoch, running.operations.trees
        await trees.ready(STORE)
        assert trees.entry(At(STORE, "state/.24.tmp")).size > 0
        assert shown(running, 0) == {*(f"state/{number:02}" for number in range(24)), "commits/0"}
        assert {"live/0", "live/9", "state/moved", "commits/1"} <= shown(running, 1)
        assert not {"live/1", "live/2", "live/5", "state/02", "state/03"} & shown(running, 1)

        assert await history.losses(running) == []  # which wins the next epoch as well
        assert history.epoch == before + 1
        del history.files["state/.24.tmp"]  # a draft goes with its epoch
        with pytest.raises(Problem) as gone:
            trees.entry(At(STORE, "state/.24.tmp"))
        assert gone.value.code is Code.NOT_EXIST
        with pytest.raises(Problem) as fenced:
            await trees.delete(At(STORE, "live/0"), before, recursive=False)
        assert fenced.value.code is Code.FENCED

        await history.write(running, range(3))
        await running.replica._compaction.compact(STORE)
        assert await history.losses(running) == []

"""A tree of which a record cannot be read: nothing is listed as if it were all that there is. (`tests.corrupt` damages
records where they are stored; here one is as a leader finds it when it has loaded such a record.)
"""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.trees import MakeSavepoint
from milepost_server.operations.cloning import CloneSource
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE, actor
from tests.support.files import put
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio


async def listed(running: Rig, path: str) -> list[str]:
    return [name for name, _ in await running.operations.trees.children(At(STORE, path))]


async def test_a_directory_is_not_listed_without_a_file_whose_record_is_damaged(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for path in ("commits/0", "commits/1", "offsets/0"):
            await put(running, path, epoch, b"content", inline=True)
        key = path_key(STORE, "commits/1")
        running.replica.journal.read().view.state.apply([(key, Corrupt("commits", "its checksum is wrong"))])
        with pytest.raises(Problem) as refused:
            await listed(running, "commits")
        assert refused.value.code is Code.CORRUPT
        assert key in refused.value.detail
        assert running.operations.trees.entry(At(STORE, "commits/0")).size == 7
        assert [name for name, _ in await running.operations.trees.children(At(STORE, "commits/0"))] == [""]

        assert await running.operations.trees.delete(At(STORE, "commits/1"), epoch, recursive=False)
        assert await listed(running, "commits") == ["0"]


async def test_no_cut_from_before_a_damaged_record_was_deleted_is_whole(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for path in ("state/0", "commits/0"):
            await put(running, path, epoch, b"content", inline=True)
        snapshots = running.operations.snapshots
        await running.operations.perform(MakeSavepoint(Attempt("a"), STORE, "before", 0))
        key = path_key(STORE, "state/0")
        running.replica.journal.read().view.state.apply([(key, Corrupt(STORE, "its checksum is wrong"))])
        assert await running.operations.trees.delete(At(STORE, "state/0"), epoch, recursive=False)
        for path in ("state/0", "commits/1"):
            await put(running, path, epoch, b"anew", inline=True)

        found = (await snapshots.verify(STORE, digests=True)).answer.body
        assert (found["intact"], found["damaged"]) == (True, [])
        assert [snapshot["intact"] for snapshot in found["snapshots"]] == [False, True]
        assert [savepoint["intact"] for savepoint in found["savepoints"]] == [False]
        other = (await running.operations.epochs.campaign(Caller(Attempt("a")), "another", 0.0)).answer.body["epoch"]
        with pytest.raises(Problem, match="a damaged record was deleted") as refused:
            await snapshots.clone(Caller(Attempt("a"), other), "another", CloneSource(STORE, "before"))
        assert refused.value.code is Code.CORRUPT


async def test_what_lacks_a_file_whose_record_is_damaged_is_neither_whole_nor_cloned(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for path in ("state/0", "state/1", "commits/0"):
            await put(running, path, epoch, b"content", inline=True)
        snapshots = running.operations.snapshots
        await running.operations.perform(MakeSavepoint(Attempt("a"), STORE, "before-upgrade", 0))
        key = path_key(STORE, "state/1")
        running.replica.journal.read().view.state.apply([(key, Corrupt(STORE, "its checksum is wrong"))])

        found = (await snapshots.verify(STORE, digests=False)).answer.body
        assert found["damaged"] == [{"path": key, "reason": "its record is damaged"}]
        kept = (*found["snapshots"], *found["savepoints"])
        assert [found["intact"], *(each["intact"] for each in kept)] == [False] * 3

        other = (await running.operations.epochs.campaign(Caller(Attempt("a")), "another", 0.0)).answer.body["epoch"]
        with pytest.raises(Problem, match=key) as refused:
            await snapshots.clone(Caller(Attempt("a"), other), "another", CloneSource(STORE, "before-upgrade"))
        assert refused.value.code is Code.CORRUPT
        assert await running.operations.trees.children(At("another", "")) == []

"""Who meets a bound that maintenance frees has it freed at once: the next time that maintenance runs is an hour
away here.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.trees import OntoExisting
from milepost_server.model.trees import MOST_RANGE_TOMBSTONES, MOST_ROLLBACKS, Tree
from milepost_server.operations.cloning import CloneSource
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller
from milepost_server.rules.trees import visibility
from tests.service.acting import STORE, actor
from tests.support.files import put, put_at
from tests.support.network.faults import before
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig

pytestmark = pytest.mark.anyio

HOURLY = replace(PROMPT, maintenance_interval_seconds=3600.0, inline_below=4096)


async def begun(running: Rig) -> int:
    """The epoch of a driver of the store."""
    return await (await actor(running, "a")).campaign()


def tree(running: Rig) -> Tree:
    """The record of the store's tree."""
    found = running.replica.journal.read().view.state.tree(STORE)
    assert isinstance(found, Tree)
    return found


async def deleted(running: Rig, path: str, epoch: int) -> bool:
    """Delete a directory with all that is in it."""
    return await running.operations.trees.delete(At(STORE, path), epoch, recursive=True)


async def with_no_room(running: Rig) -> int:
    """Delete as many directories as can be kept in mind; one more is there. Return the epoch."""
    epoch = await begun(running)
    for number in range(MOST_RANGE_TOMBSTONES + 1):
        await put(running, f"d{number}/file", epoch, inline=True)
    for number in range(MOST_RANGE_TOMBSTONES):
        assert await deleted(running, f"d{number}", epoch)
    return epoch


async def with_dead(running: Rig, epoch: int, count: int) -> None:
    """Let a directory be there, empty, below which so many files have died."""
    for number in range(count):
        await put(running, f"d/{number}", epoch, inline=True)
    assert await deleted(running, "d", epoch)
    await running.operations.trees.make_directory(At(STORE, "d"), epoch)


async def test_any_number_of_directories_is_deleted_one_after_the_other(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch = await begun(running)
        for number in range(3 * MOST_RANGE_TOMBSTONES + 1):
            await put(running, f"d{number}/file", epoch, inline=True)
        for number in range(3 * MOST_RANGE_TOMBSTONES + 1):
            assert await deleted(running, f"d{number}", epoch)
        assert await running.operations.trees.children(At(STORE, "")) == []


async def test_as_many_at_the_same_time(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch = await begun(running)
        for number in range(3 * MOST_RANGE_TOMBSTONES):
            await put(running, f"d{number}/file", epoch, inline=True)
        ended = await asyncio.gather(
            *(deleted(running, f"d{number}", epoch) for number in range(3 * MOST_RANGE_TOMBSTONES))
        )
        assert ended == [True] * (3 * MOST_RANGE_TOMBSTONES)
        assert await running.operations.trees.children(At(STORE, "")) == []


async def test_small_directories_do_not_wait_for_a_large_one(tmp_path: Path) -> None:
    """The large one was deleted first, and takes five commits; the small ones share one after its first."""
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch = await begun(running)
        for number in range(450):
            await put(running, f"large/{number}", epoch, inline=True)
        for number in range(MOST_RANGE_TOMBSTONES + 1):
            await put(running, f"d{number}/file", epoch, inline=True)
        assert await deleted(running, "large", epoch)
        for number in range(MOST_RANGE_TOMBSTONES - 1):
            assert await deleted(running, f"d{number}", epoch)
        assert await deleted(running, f"d{MOST_RANGE_TOMBSTONES}", epoch)
        assert "large" in [tombstone.path for tombstone in tree(running).range_tombstones]


@pytest.mark.parametrize("act", ["delete", "rename", "replace"])
async def test_dead_paths_are_dropped_for_who_has_to_look_through_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    monkeypatch.setattr(visibility, "MOST_TOMBSTONES", 5)
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch, trees = await begun(running), running.operations.trees
        await with_dead(running, epoch, 6)
        await trees.make_directory(At(STORE, "e"), epoch)
        if act == "delete":
            assert await trees.delete(At(STORE, "d"), epoch, recursive=False)
        elif act == "rename":
            assert await trees.rename(At(STORE, "d"), "f", epoch, OntoExisting.REFUSE)
        else:
            assert await trees.rename(At(STORE, "e"), "d", epoch, OntoExisting.REPLACE)


async def test_temporary_files_of_an_older_epoch_are_dropped_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "MOST_TOMBSTONES", 5)
    async with rig(embedded(tmp_path), HOURLY) as running:
        first = await actor(running, "a")
        epoch = await first.campaign()
        for number in range(6):
            await put(running, f"d/.{number}.tmp", epoch, inline=True)
        await first.end()
        second = await (await actor(running, "b")).campaign()
        assert await running.operations.trees.delete(At(STORE, "d"), second, recursive=False)


async def test_what_a_cut_shows_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "MOST_TOMBSTONES", 5)
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch = await begun(running)
        for number in range(6):
            await put(running, f"d/{number}", epoch, inline=True)
        await put(running, "commits/0", epoch, inline=True)
        assert await deleted(running, "d", epoch)
        await running.operations.trees.make_directory(At(STORE, "d"), epoch)
        with pytest.raises(Problem) as refused:
            await running.operations.trees.delete(At(STORE, "d"), epoch, recursive=False)
        assert refused.value.code is Code.TOO_MANY_REQUESTS
        assert "a snapshot or a savepoint shows them" in refused.value.detail


async def test_a_rollback_waits_for_what_was_deleted_and_for_those_before_it(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch = await begun(running)
        await put(running, "d/file", epoch, inline=True)
        await put(running, "commits/0", epoch, inline=True)
        (snapshot,) = (await running.operations.snapshots.kept(STORE)).answer.body["snapshots"]
        assert await deleted(running, "d", epoch)
        for _ in range(2 * MOST_ROLLBACKS + 1):
            await running.operations.snapshots.roll_back(Caller(Attempt("a"), epoch), STORE, snapshot["revision"], ())
        assert [name for name, _ in await running.operations.trees.children(At(STORE, "d"))] == ["file"]


async def test_a_clone_waits_for_what_was_deleted_where_it_begins(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch = await begun(running)
        await put(running, "offsets/0", epoch, inline=True)
        await put(running, "commits/0", epoch, inline=True)
        (snapshot,) = (await running.operations.snapshots.kept(STORE)).answer.body["snapshots"]
        other, trees = At("other", "old/file"), running.operations.trees
        await put_at(running.replica, running.operations, other, None, b"bytes", overwrite=False, key="other")
        assert await trees.delete(At("other", "old"), None, recursive=True)
        made = await running.operations.snapshots.clone(
            Caller(Attempt("a", "k")), "other", CloneSource(STORE, f"@{snapshot['revision']}")
        )
        assert made.answer.body["files"] == 2


async def test_a_deletion_is_refused_in_time_while_nothing_can_be_freed(tmp_path: Path) -> None:
    """A record that cannot be read may be of a file in there, so that the deletion must be kept in mind."""
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch = await with_no_room(running)
        state = running.replica.journal.read().view.state
        state.apply([(path_key(STORE, "lost"), Corrupt("lost", "a fault of this test"))])
        with pytest.raises(Problem) as refused:
            await deleted(running, f"d{MOST_RANGE_TOMBSTONES}", epoch)
        assert refused.value.code is Code.TOO_MANY_REQUESTS


async def test_who_waits_for_room_waits_no_longer_than_its_deadline(tmp_path: Path) -> None:
    """The commit of the pass hangs. Once the storage goes on, the same pass frees what is asked for then."""
    async with rig(embedded(tmp_path), HOURLY) as running:
        epoch = await with_no_room(running)
        gate = asyncio.Event()
        running.pointers.disturb(before(gate.wait))
        assert not await running.replica._trimming.make_room(STORE, running.clock())
        assert not await running.replica._trimming.make_room(STORE, running.clock())
        gate.set()
        assert await deleted(running, f"d{MOST_RANGE_TOMBSTONES}", epoch)

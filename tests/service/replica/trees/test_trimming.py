"""What a tree does not show any more is dropped in the background, with its bytes, however much it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from milepost.errors import Fenced
from milepost.wire import Code
from milepost_backends.contract import GroupLimits
from milepost_server.basics.problems import problem
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.trees import OntoExisting
from milepost_server.model.trees import Tree
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE, actor
from tests.support.files import put, put_at, read
from tests.support.servers.replicas import PROMPT, Backends, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

TIDY = replace(PROMPT, maintenance_interval_seconds=0.02, linger_seconds=0.0, inline_below=0)
MANY = 250


def records(running: Rig) -> list[str]:
    """The paths that have a record."""
    return list(running.replica.journal.read().view.state.paths(STORE, ""))


async def dropped(running: Rig, left: list[str]) -> None:
    """Wait until these are the paths that have a record."""

    async def are_left() -> bool:
        return records(running) == left

    await until(are_left)


async def test_a_deleted_directory_goes_with_all_that_was_in_it(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), TIDY) as running:
        epoch = await (await actor(running, "a")).campaign()
        for number in range(MANY):
            await put(running, f"state/{number:03}", epoch)
        await put(running, "kept", epoch)
        assert await running.operations.trees.delete(At(STORE, "state"), epoch, recursive=True)
        await put(running, "state/later", epoch)
        await dropped(running, ["kept", "state", "state/later"])
        await running.emptied_trash()
        assert len(running.blobs.discarded) >= MANY
        for path in ("kept", "state/later"):
            assert await read(running, path) == b"bytes"


async def test_temporary_files_go_with_their_epoch_and_the_fence_holds(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), TIDY) as running:
        a, b = await actor(running, "a"), await actor(running, "b")
        first = await a.campaign()
        await put(running, "offsets/.0.tmp", first)
        await put(running, "offsets/0", first)
        await a.end()
        second = await b.campaign()
        await dropped(running, ["offsets", "offsets/0"])
        with pytest.raises(Fenced):
            await running.operations.trees.rename(At(STORE, "offsets/0"), "offsets/1", first, OntoExisting.REFUSE)
        with pytest.raises(Fenced):
            await put(running, "offsets/1", first)
        await put(running, "offsets/1", second)
        assert records(running) == ["offsets", "offsets/0", "offsets/1"]


async def test_what_cuts_show_is_kept_and_goes_with_them(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), TIDY) as running:
        epoch = await (await actor(running, "a")).campaign()
        await put(running, "state/0", epoch)
        await put(running, "commits/0", epoch)
        await running.operations.trees.delete(At(STORE, "state/0"), epoch, recursive=False)
        for batch in range(1, 10):
            await put(running, f"commits/{batch}", epoch)
        assert "state/0" in records(running)
        await put(running, "commits/10", epoch)  # the eleventh snapshot: the first one goes

        async def is_gone() -> bool:
            return "state/0" not in records(running)

        await until(is_gone)


async def test_trees_outlive_the_server(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), TIDY) as running:
        epoch = await (await actor(running, "a")).campaign()
        await put(running, "a/b", epoch, b"one")
        await put(running, "a/.c.tmp", epoch, b"two")
        await running.restart()
        assert records(running) == ["a", "a/.c.tmp", "a/b"]
        await running.operations.trees.rename(At(STORE, "a/.c.tmp"), "a/c", epoch, OntoExisting.REFUSE)
        names = [name for name, _ in await running.operations.trees.children(At(STORE, "a"))]
        assert names == ["b", "c"]


async def test_a_tree_that_cannot_be_tidied_up_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(embedded(tmp_path), TIDY) as running:
        epoch = await (await actor(running, "a")).campaign()
        ready = running.replica.manifests.ready

        async def of_another(store: str) -> None:
            if store == STORE:
                raise problem(Code.CORRUPT, "a manifest is damaged")
            await ready(store)

        trees, other = running.operations.trees, At("other", "state/0")
        await put(running, "state/0", epoch)
        await put_at(running.replica, running.operations, other, None, b"bytes", overwrite=True, key="other")
        monkeypatch.setattr(running.replica.manifests, "ready", of_another)
        assert await trees.delete(At(STORE, "state"), epoch, recursive=True)
        assert await trees.delete(At("other", "state"), None, recursive=True)

        async def is_tidy() -> bool:
            return not list(running.replica.journal.read().view.state.paths("other", ""))

        await until(is_tidy)
        assert records(running) == ["state/0"]


async def test_what_does_not_fit_into_one_commit_is_trimmed_in_several(tmp_path: Path) -> None:
    """A rollback leaves two entries with the bytes of each small file; ZooKeeper takes half a megabyte at once."""
    limits = GroupLimits(bytes=64 * 1024, value_bytes=64 * 1024)

    def build(advertise: str) -> Backends:
        backends = embedded(tmp_path)(advertise)
        pointers = cast(Any, backends.pointers)
        pointers.limits = pointers._journals._limits = limits
        return backends

    async with rig(build, replace(TIDY, inline_below=4096)) as running:
        epoch = await (await actor(running, "a")).campaign()
        names = [f"state/{number:02}" for number in range(40)]
        for name in names:
            await put(running, name, epoch, b"A" * 4000, inline=True)
        await put(running, "commits/0", epoch, b"v1", inline=True)
        (snapshot,) = (await running.operations.snapshots.kept(STORE)).answer.body["snapshots"]
        for name in names:
            await put(running, name, epoch, b"B" * 4000, inline=True, overwrite=True)
        await running.operations.snapshots.roll_back(Caller(Attempt("a"), epoch), STORE, snapshot["revision"], ())

        async def is_finished() -> bool:
            tree = running.replica.journal.read().view.tree(STORE)
            return isinstance(tree, Tree) and not tree.rollbacks

        await until(is_finished)
        for name in names:
            assert await read(running, name) == b"A" * 4000

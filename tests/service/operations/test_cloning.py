"""A clone begins another job's tree with copies of what a snapshot shows: all of it, or nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.loop_time import TURN_SECONDS
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.intake import Incoming
from milepost_server.model.records import Handle
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.trees import DropSavepoint, MakeSavepoint
from milepost_server.model.trees import Tree
from milepost_server.operations import cloning
from milepost_server.operations.cloning import CloneSource, NewHandle
from milepost_server.operations.operations import Operations
from milepost_server.operations.states import Span
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller, Reply
from milepost_server.rules.trees import manifests
from tests.service.acting import STORE, actor
from tests.support.files import put, put_at, read, read_at
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.states import stored_states
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

CLONE = "another"
LARGE = b"0123456789abcdef" * 200_000
SETTINGS = replace(PROMPT, inline_below=100, compact_from=2, compact_after_seconds=0.0, linger_seconds=0.0)
METADATA = b'v2\n{"stateSchemaFilePaths":["webhdfs://milepost/jobs/%s/checkpoint/state/0/_stateSchema/default/0_1"]}'


async def kept(running: Rig) -> int:
    """Let the source have files of every kind, and make a savepoint of them; then go on. Return its epoch."""
    epoch = await (await actor(running, "a")).campaign()
    await put(running, "checkpoint/metadata", epoch, b"id", inline=True)
    await put(running, "checkpoint/state/0/_metadata/v2/0", epoch, METADATA % STORE.encode())
    await put(running, "checkpoint/state/0/0/1.zip", epoch, LARGE)
    await put(running, "checkpoint/offsets/0", epoch, b"", inline=True)
    await put(running, "checkpoint/commits/0", epoch, b"v1", inline=True)
    await running.operations.perform(MakeSavepoint(Attempt("a"), STORE, "before-upgrade", 0))
    await running.replica._compaction.compact(STORE)
    await put(running, "checkpoint/state/0/0/2.zip", epoch, LARGE + b"2")
    await running.operations.trees.delete(At(STORE, "checkpoint/state/0/0/1.zip"), epoch, recursive=False)
    return epoch


async def target(running: Rig) -> Caller:
    """Lead the job that is to be a clone."""
    await actor(running, "b")
    reply = await running.operations.epochs.campaign(Caller(Attempt("b")), CLONE, 0.0)
    return Caller(Attempt("b", "clone"), reply.answer.body["epoch"])


async def clone(
    running: Rig,
    caller: Caller,
    snapshot: str = "before-upgrade",
    written: Mapping[str, bytes] = MappingProxyType({}),
    handle: NewHandle | None = None,
) -> Reply:
    source = CloneSource(STORE, snapshot, written)
    return await running.operations.snapshots.clone(caller, CLONE, source, handle)


async def shown(running: Rig, directory: str = "") -> dict[str, bytes]:
    """The files of the clone."""
    operations: Operations = running.operations
    await operations.trees.ready(CLONE)
    found: dict[str, bytes] = {}
    for name, entry in await operations.trees.children(At(CLONE, directory)):
        path = f"{directory}/{name}".lstrip("/")
        if entry.directory:
            found |= await shown(running, path)
        else:
            found[path] = await read_at(running.replica, operations, At(CLONE, path))
    return found


COPIED = {
    "checkpoint/commits/0": b"v1",
    "checkpoint/metadata": b"id",
    "checkpoint/offsets/0": b"",
    "checkpoint/state/0/0/1.zip": LARGE,
    "checkpoint/state/0/_metadata/v2/0": METADATA % CLONE.encode(),
}


async def test_the_bytes_of_many_small_files_are_not_all_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloning, "_PACK_BYTES", 10_000)
    most: list[int] = []
    add = cloning._Copies.add

    def watched(copies: Any, path: str, entry: Any) -> None:
        add(copies, path, entry)
        most.append(copies.small_bytes)

    monkeypatch.setattr(cloning._Copies, "add", watched)
    files = {f"checkpoint/{number}": b"%d" % number * 1000 for number in range(60)}
    async with rig(embedded(tmp_path), replace(SETTINGS, inline_below=4096)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for path, content in files.items():
            await put(running, path, epoch, content, inline=True)
        await put(running, "checkpoint/commits/0", epoch, b"v1", inline=True)
        await running.operations.perform(MakeSavepoint(Attempt("a"), STORE, "before-upgrade", 0))
        await clone(running, await target(running))
        assert await shown(running) == files | {"checkpoint/commits/0": b"v1"}
        assert max(most) < 10_000 + 2 * 8 * 2_000


async def test_no_request_waits_until_all_copies_of_a_refused_clone_are_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a whole slice, as it seems; then the loop must turn after each few."""
    count = 60
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for number in range(count):
            await put(running, f"checkpoint/{number:02}", epoch)
        await put(running, "checkpoint/z", epoch, b"/jobs/%s/checkpoint" % STORE.encode())
        await put(running, "checkpoint/commits/0", epoch, b"v1")
        await running.operations.perform(MakeSavepoint(Attempt("a"), STORE, "before-upgrade", 0))
        caller, schedule, steps = await target(running), running.replica.deletions.schedule, [0]

        def slow(key: str, seconds: float) -> None:
            steps[-1] += 1
            running.clock.advance(TURN_SECONDS)
            schedule(key, seconds)

        monkeypatch.setattr(running.replica.deletions, "schedule", slow)
        cloning_ = asyncio.create_task(clone(running, caller))
        while not cloning_.done():
            await asyncio.sleep(0)
            steps.append(0)
        with pytest.raises(Problem, match="its copy would lead there"):
            cloning_.result()
        assert sum(steps) >= count
        assert max(steps) <= 4


async def test_a_clone_has_what_the_snapshot_shows_and_goes_its_own_way(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        epoch = await kept(running)
        caller = await target(running)
        reply = await clone(running, caller)
        size = sum(map(len, COPIED.values()))
        assert reply.answer.body == {"files": 5, "bytes": size}
        assert await shown(running) == COPIED
        again = await clone(running, replace(caller, attempt=Attempt("b", "clone", 2)))
        assert (again.answer.body, again.answer.replayed) == (reply.answer.body, True)

        snapshots = (await running.operations.snapshots.kept(CLONE)).answer.body["snapshots"]
        assert [(snapshot["directory"], snapshot["batch"]) for snapshot in snapshots] == [("checkpoint", 0)]
        running_in = (running.replica, running.operations)
        for path in ("checkpoint/commits/1", "checkpoint/metadata"):
            await put_at(*running_in, At(CLONE, path), caller.epoch, b"own", overwrite=True, key=path)
        await running.operations.perform(DropSavepoint(Attempt("a"), STORE, "before-upgrade"))
        await running.operations.trees.delete(At(STORE, "checkpoint"), epoch, recursive=True)
        await running.emptied_trash()
        own = {"checkpoint/commits/1": b"own", "checkpoint/metadata": b"own"}
        assert await shown(running) == COPIED | own
        await running.operations.snapshots.roll_back(
            replace(caller, attempt=Attempt("b")), CLONE, snapshots[0]["revision"], ()
        )
        assert await shown(running) == COPIED
        with pytest.raises(Problem) as fenced:
            await put_at(*running_in, At(CLONE, "x"), (caller.epoch or 0) + 1, b"", overwrite=True, key="x")
        assert fenced.value.code is Code.FENCED


@pytest.mark.parametrize("state", [b"few", b"more than is kept in a record " * 10], ids=["in-record", "in-blob"])
async def test_a_handle_comes_in_the_commit_of_the_files_and_some_have_bytes_of_their_own(
    tmp_path: Path, state: bytes
) -> None:
    written = {"checkpoint/metadata": b"another id"}
    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        caller, handle = await target(running), NewHandle("job", state, {"published": "0"})
        made = await clone(running, caller, written=written, handle=handle)
        assert await shown(running) == COPIED | written
        view = running.replica.journal.read().view
        record = view.handle(CLONE, "job")
        assert isinstance(record, Handle)
        assert (record.version, record.labels) == (made.answer.body["version"], {"published": "0"})
        tree = view.tree(CLONE)
        assert isinstance(tree, Tree)
        assert tree.snapshots[0].revision == record.changed
        again = replace(caller, attempt=Attempt("b", "clone", 2))
        repeated = await clone(running, again, written=written, handle=handle)
        assert (repeated.answer.body, repeated.answer.replayed) == (made.answer.body, True)
        for others in ({**written, "checkpoint/metadata": b"a third"}, {}):
            with pytest.raises(Problem) as other:
                await clone(running, again, written=others, handle=handle)
            assert other.value.code is Code.IDEMPOTENCY_MISMATCH
    async with rig(embedded(tmp_path), SETTINGS) as running:
        reader = running.operations.reader
        delivery = await reader.read(CLONE, "job", None, lambda found: Span(0, found.size))
        assert b"".join([chunk async for chunk in delivery.chunks]) == state
        assert await shown(running) == COPIED | written


@pytest.mark.parametrize("there", ["handle", "file"])
async def test_a_refused_handle_or_file_leaves_nothing_of_a_clone(tmp_path: Path, there: str) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        caller = await target(running)
        if there == "handle":
            await running.operations.states.add(
                replace(caller, attempt=Attempt("b")), CLONE, "job", Incoming(stream_of(b"own"), 3), {}
            )
        before = set(await stored_states(running.replica.blobs))
        written = {"checkpoint/metadata": b"id"} if there == "handle" else {"checkpoint/nothing": b""}
        with pytest.raises(Problem) as refused:
            await clone(running, caller, written=written, handle=NewHandle("job", b"0" * 200, {}))
        assert refused.value.code is (Code.ALREADY_EXISTS if there == "handle" else Code.NOT_EXIST)
        assert await shown(running) == {}

        async def gone() -> bool:
            return set(await stored_states(running.replica.blobs)) == before

        await until(gone)


async def test_a_clone_outlives_the_leader(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        await clone(running, await target(running))
        listed = (await running.operations.snapshots.kept(CLONE)).answer
    async with rig(embedded(tmp_path), SETTINGS) as running:
        assert (await running.operations.snapshots.kept(CLONE)).answer == listed, "the first that is asked of the tree"
        assert await shown(running) == COPIED


@pytest.mark.parametrize(
    ("snapshot", "epoch", "code"),
    [("never", 0, Code.NOT_EXIST), ("@1", 0, Code.NOT_EXIST), ("before-upgrade", 1, Code.FENCED)],
)
async def test_a_clone_that_is_refused_leaves_nothing(tmp_path: Path, snapshot: str, epoch: int, code: Code) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        caller = await target(running)
        before = set(await stored_states(running.replica.blobs))
        with pytest.raises(Problem) as refused:
            await clone(running, replace(caller, epoch=(caller.epoch or 0) + epoch), snapshot)
        assert refused.value.code is code
        assert await shown(running) == {}
        assert set(await stored_states(running.replica.blobs)) == before


async def test_others_are_served_while_the_records_of_a_clone_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def packed(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return manifests.packed(*given)

    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        monkeypatch.setattr(cloning, "packed", packed)
        await clone(running, await target(running))
        assert await shown(running) == COPIED
    assert threads
    assert threading.current_thread() not in threads


async def test_a_clone_that_was_made_is_known_though_its_snapshot_is_gone(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        caller = await target(running)
        first = await clone(running, caller)
        await running.operations.perform(DropSavepoint(Attempt("a"), STORE, "before-upgrade"))
        again = await clone(running, replace(caller, attempt=Attempt("b", "clone", 2)))
        assert (again.answer.body, again.answer.replayed) == (first.answer.body, True)
        with pytest.raises(Problem) as other:
            await clone(running, replace(caller, attempt=Attempt("b", "clone", 3)), "another")
        assert other.value.code is Code.IDEMPOTENCY_MISMATCH


async def test_a_cut_that_goes_while_it_is_looked_through_is_not_cloned_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        epoch = await (await actor(running, "a")).campaign()
        await put(running, "state/0", epoch, b"state", inline=True)
        await put(running, "commits/0", epoch, b"v1", inline=True)
        (snapshot,) = (await running.operations.snapshots.kept(STORE)).answer.body["snapshots"]
        await running.operations.trees.delete(At(STORE, "state/0"), epoch, recursive=False)
        caller = await target(running)
        look = running.replica.loop_time.each_after

        async def late(*given: Any) -> None:
            monkeypatch.undo()
            for batch in range(1, 11):
                await put(running, f"commits/{batch}", epoch, b"v1", inline=True)
            await running.replica._trimming.trim(STORE)
            await look(*given)

        monkeypatch.setattr(running.replica.loop_time, "each_after", late)
        with pytest.raises(Problem, match="make a savepoint of it first") as refused:
            await clone(running, caller, f"@{snapshot['revision']}")
        assert refused.value.code is Code.NOT_EXIST
        assert await shown(running) == {}


async def test_a_tree_with_files_is_no_clone(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        caller = await target(running)
        at = At(CLONE, "checkpoint/metadata")
        await put_at(running.replica, running.operations, at, caller.epoch, b"own", overwrite=True, key="own")
        with pytest.raises(Problem, match="is not empty: it has 'checkpoint'") as refused:
            await clone(running, caller)
        assert refused.value.code is Code.NOT_EMPTY


@pytest.mark.parametrize("content", [b"see /jobs/%s/x" % STORE.encode(), LARGE + b"/jobs/%s/" % STORE.encode()])
async def test_what_names_the_source_is_not_copied_in_silence(tmp_path: Path, content: bytes) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        epoch = await kept(running)
        await put(running, "checkpoint/state/0/schema", epoch, content, inline=len(content) < 100)
        await put(running, "checkpoint/commits/1", epoch, b"v1", inline=True)
        await running.operations.perform(MakeSavepoint(Attempt("a"), STORE, "later", 0))
        caller, before = await target(running), set(await stored_states(running.replica.blobs))
        with pytest.raises(Problem, match=r"state/0/schema' of 'flights' names '/jobs/flights/'") as refused:
            await clone(running, caller, "later")
        assert refused.value.code is Code.INVALID_REQUEST

        async def gone() -> bool:
            return set(await stored_states(running.replica.blobs)) == before

        await until(gone)
        assert await shown(running) == {}
        assert await read(running, "checkpoint/state/0/schema") == content


async def test_a_clone_that_somebody_was_quicker_than_leaves_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree is empty when it begins, and is not when all is copied."""
    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        caller = await target(running)
        before = set(await stored_states(running.replica.blobs))
        goes_on, real = asyncio.Event(), running.replica.blobs.put

        async def slow(key: str, chunks: AsyncIterator[bytes], **terms: float) -> int:
            await goes_on.wait()
            return await real(key, chunks, **terms)

        monkeypatch.setattr(running.replica.blobs, "put", slow)
        cloning = asyncio.create_task(clone(running, caller))
        await asyncio.sleep(0)
        at = At(CLONE, "checkpoint/metadata")
        await put_at(running.replica, running.operations, at, caller.epoch, b"own", overwrite=True, key="own")
        goes_on.set()
        with pytest.raises(Problem) as refused:
            await cloning
        assert refused.value.code is Code.NOT_EMPTY
        assert await shown(running) == {"checkpoint/metadata": b"own"}

        async def gone() -> bool:
            return set(await stored_states(running.replica.blobs)) == before

        await until(gone)

"""A verification of a tree reads no more than it was asked to, and names what is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BlobInfo, StorageUnavailable
from milepost_server.basics.loop_time import TURN_SECONDS
from milepost_server.blobs.keys import prefix_of_store
from milepost_server.model.trees import TreePath
from milepost_server.operations import verification
from milepost_server.operations.verification import Report
from tests.service.acting import STORE, actor
from tests.service.replica.trees.test_compaction import FOLDING, compacted, put_one
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio

NAMES = [f"state/{number:02}" for number in range(40)]
SMALL = [name for name in NAMES if name[-1] in "02468"]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Rig]:
    """A replica with forty files in a manifest: half of them small, whose bytes lie in one blob."""
    async with rig(embedded(tmp_path), FOLDING) as running:
        epoch = await (await actor(running, "a")).campaign()
        for name in NAMES:
            await put_one(running, name, epoch)
        await compacted(running)
        yield running


async def verified(running: Rig, *, digests: bool) -> Report:
    return await running.operations.snapshots._verification.verify(STORE, digests=digests)


def packs(running: Rig) -> dict[str, list[str]]:
    """The blobs of small files, and which are in each."""
    found: dict[str, list[str]] = {}
    for name in SMALL:
        record = running.replica.journal.read().view.state.path(STORE, name)
        assert isinstance(record, TreePath)
        found.setdefault(record.entries[-1].blob, []).append(name)
    found.pop("", None)  # those that have not been compacted yet
    return found


def watch(running: Rig, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Note which prefixes are listed and which blobs are asked for by name, and let none be read."""
    listed, asked = list[str](), list[str]()
    whole_list, size = running.blobs.list, running.blobs.size

    def listing(prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        listed.append(prefix)
        return whole_list(prefix, older_than)

    async def counted(key: str) -> int:
        asked.append(key)
        return await size(key)

    monkeypatch.setattr(running.blobs, "list", listing)
    monkeypatch.setattr(running.blobs, "size", counted)
    monkeypatch.setattr(running.blobs, "get", lambda *_, **__: pytest.fail("it was read"))
    return listed, asked


async def test_sizes_are_learnt_from_a_listing_without_a_byte_being_read(
    running: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, asked = watch(running, monkeypatch)
    found = await verified(running, digests=False)
    assert (found.files, found.damaged) == (len(NAMES), {})
    assert (listed, asked) == ([f"{running.replica.journal.deployment}/{STORE}/"], [])


async def test_no_request_waits_until_all_files_were_counted(running: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes a whole slice, as it seems; then the loop must turn after each few."""
    steps: list[int] = [0]

    def step() -> None:
        steps[-1] += 1
        running.clock.advance(TURN_SECONDS)

    class Counted(Report):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "files":
                step()
            super().__setattr__(name, value)

    def prefix(key: str) -> str | None:
        step()
        return prefix_of_store(key)

    monkeypatch.setattr(verification, "Report", Counted)
    monkeypatch.setattr(verification, "prefix_of_store", prefix)
    work = asyncio.create_task(verified(running, digests=False))
    while not work.done():
        await asyncio.sleep(0)
        steps.append(0)
    assert work.result().files == len(NAMES)
    assert sum(steps) >= len(NAMES) + len(NAMES) - len(SMALL)
    assert max(steps) <= 8


async def missing_in_listings(_prefix: str, _older_than: float) -> AsyncIterator[BlobInfo]:
    """Every blob came after the listing."""
    for info in list[BlobInfo]():
        yield info


async def unlistable(_prefix: str, _older_than: float) -> AsyncIterator[BlobInfo]:
    """The listing ends after a blob of somebody else."""
    yield BlobInfo("a/b/c/d", 1, 1.0)
    raise StorageUnavailable("no listing")


async def among_many(prefix: str, _older_than: float) -> AsyncIterator[BlobInfo]:
    """There are more blobs of handles than anybody wants to hear of."""
    for number in range(100_000):
        assert number < 100 * len(NAMES)
        yield BlobInfo(f"{prefix}000000000001/{number}", 1, 1.0)


@pytest.mark.parametrize("listing", [missing_in_listings, unlistable, among_many])
async def test_what_a_listing_does_not_tell_is_asked_for_once(
    running: Rig, monkeypatch: pytest.MonkeyPatch, listing: Callable[[str, float], AsyncIterator[BlobInfo]]
) -> None:
    _, asked = watch(running, monkeypatch)
    monkeypatch.setattr(running.blobs, "list", listing)
    found = await verified(running, digests=False)
    assert (found.files, found.damaged) == (len(NAMES), {})
    assert len({*asked}) == len(NAMES) - len(SMALL) + len(packs(running))


@pytest.mark.parametrize("digests", [False, True])
async def test_small_files_whose_common_blob_is_damaged(running: Rig, tmp_path: Path, digests: bool) -> None:
    blob, names = max(packs(running).items(), key=lambda item: len(item[1]))
    assert len(names) > 1
    (stored,) = (path for path in tmp_path.glob("**/*") if path.name == blob.rpartition("/")[2])  # noqa: ASYNC240
    whole = stored.read_bytes()
    stored.write_bytes(whole[: len(whole) // 2])
    assert 0 < len((await verified(running, digests=digests)).damaged) < len(names)
    stored.write_bytes(whole[::-1])
    assert len((await verified(running, digests=digests)).damaged) == (len(names) if digests else 0)
    stored.unlink()
    found = await verified(running, digests=digests)
    assert sorted(found.damaged) == names
    assert found.broken == {0}


async def test_a_blob_store_that_is_away_is_named(running: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: str) -> int:
        raise StorageUnavailable("it is away")

    monkeypatch.setattr(running.blobs, "list", unlistable)
    monkeypatch.setattr(running.blobs, "size", away)
    with pytest.raises(Problem, match="it is away") as unknown:
        await verified(running, digests=False)
    assert unknown.value.code is Code.STORAGE_UNAVAILABLE


async def test_others_are_served_while_many_damaged_files_are_named(
    running: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stored in (tmp_path / "blobs").rglob("*"):
        if stored.is_file():
            stored.unlink()
    turns: list[int] = []
    each = running.replica.loop_time.each

    async def counted(items: Iterable[Any], act: Callable[[Any], object]) -> None:
        several = list(items)
        turns.append(len(several))
        await each(several, act)

    monkeypatch.setattr(running.replica.loop_time, "each", counted)
    damaged = (await verified(running, digests=False)).damaged
    assert len(damaged) >= len(NAMES) - len(SMALL)
    assert len(damaged) in turns

"""What blobs as files promise beyond the contract: about the disk, its errors, and what others left behind."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from milepost_backends.contract import BlobInfo, BlobTruncated, Misconfigured, StorageUnavailable
from milepost_backends.disk.filesystem import FileIdentity
from milepost_backends.local import tree as local_tree
from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.local.tree import ABANDONED_AFTER_SECONDS, TEMPORARY
from tests.contracts.streams import Stalled, fresh_stream, is_missing, keys, read, stream
from tests.support.children import child
from tests.support.servers.small_disk import small_disk
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
SCARCE = "tests.backends.children.scarce_blobs"


def temporaries(place: Path) -> list[str]:
    return os.listdir(place / TEMPORARY)


async def test_the_key_is_the_path(store: LocalBlobs, place: Path) -> None:
    await store.put("stores/flights/1-a", stream(b"abc"))
    assert (place / "stores" / "flights" / "1-a").read_bytes() == b"abc"
    assert temporaries(place) == []


@pytest.mark.parametrize("mount_point", [True, False])
async def test_a_disk_that_is_not_mounted_is_an_outage_and_no_loss_of_blobs(
    store: LocalBlobs, place: Path, mount_point: bool
) -> None:
    """Or files would be rolled back, and handles replaced, for the sake of a disk that comes back."""
    await store.put("blob", stream(b"abc"))
    away = place.with_name("away")
    os.rename(place, away)
    if mount_point:
        os.mkdir(place)
    with pytest.raises(StorageUnavailable):
        await store.put("other", stream(b"x"))
    with pytest.raises(StorageUnavailable):
        await store.size("blob")
    with pytest.raises(StorageUnavailable):
        await read(store, "blob")
    if mount_point:
        os.rmdir(place)
    os.rename(away, place)
    assert await read(store, "blob") == b"abc"
    assert await is_missing(store, "other")


async def test_a_draft_lies_on_the_same_disk_and_is_gone_after_any_end(store: LocalBlobs, place: Path) -> None:
    stalled = Stalled(b"x" * MIB, b"y")
    putting = asyncio.create_task(store.put("blob", aiter(stalled)))
    async with asyncio.timeout(60):
        await stalled.stalled.wait()
    (temporary,) = temporaries(place)
    assert (place / TEMPORARY / temporary).stat().st_size == MIB
    assert await keys(store) == []
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert temporaries(place) == []


async def test_bytes_are_synced_before_they_are_named_and_the_name_after(
    monkeypatch: pytest.MonkeyPatch, store: LocalBlobs, place: Path
) -> None:
    acts: list[tuple[str, FileIdentity | None]] = []
    fsync, link = os.fsync, os.link

    def note_sync(descriptor: int) -> None:
        fsync(descriptor)
        acts.append(("synced", FileIdentity.of(descriptor)))

    def note_link(source: Path, target: Path) -> None:
        acts.append(("named", FileIdentity.of(source)))
        link(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    await store.put("a/b/blob", stream(b"x"))
    blob, inner, outer = (FileIdentity.of(place / path) for path in ("a/b/blob", "a/b", "a"))
    root = FileIdentity.of(place)
    assert acts == [("synced", blob), ("synced", root), ("synced", outer), ("named", blob), ("synced", inner)]
    acts.clear()
    await store.put("a/b/next", stream(b"x"))
    following = FileIdentity.of(place / "a/b/next")
    assert acts == [("synced", following), ("named", following), ("synced", inner)]


async def test_directories_made_by_a_process_that_died_are_synced_once_more(
    monkeypatch: pytest.MonkeyPatch, store: LocalBlobs, place: Path
) -> None:
    os.makedirs(place / "a" / "b")
    synced = []
    fsync = os.fsync

    def note_sync(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(FileIdentity.of(descriptor))

    monkeypatch.setattr(os, "fsync", note_sync)
    await store.put("a/b/blob", stream(b"x"))
    assert {FileIdentity.of(place), FileIdentity.of(place / "a"), FileIdentity.of(place / "a" / "b")} <= set(synced)


async def test_a_small_put_is_one_step_in_a_thread(monkeypatch: pytest.MonkeyPatch, store: LocalBlobs) -> None:
    steps = 0
    submit = ThreadPoolExecutor.submit

    def counting(executor: ThreadPoolExecutor, act: Any, /, *arguments: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        return submit(executor, act, *arguments, **options)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counting)
    await store.put("small", stream(b"x"))
    assert steps == 1
    await store.put("pieces", stream(*[b"x" * 1000] * 500))
    assert steps == 2
    await read(store, "small")
    assert steps == 3
    await store.put("large", fresh_stream(64, MIB // 16))
    assert steps <= 3 + 5


async def test_a_directory_that_was_removed_is_made_again(store: LocalBlobs, place: Path) -> None:
    await store.put("a/b/blob", stream(b"x"))
    await store.delete("a/b/blob")
    os.removedirs(place / "a" / "b")
    os.makedirs(place / TEMPORARY, exist_ok=True)
    await store.put("a/b/blob", stream(b"y"))
    assert await read(store, "a/b/blob") == b"y"


async def test_a_blob_can_be_read_to_its_end_while_it_is_deleted(store: LocalBlobs) -> None:
    await store.put("blob", fresh_stream(4, MIB))
    reading = store.get("blob")
    first = await anext(reading)
    await store.delete("blob")
    assert await is_missing(store, "blob")
    rest = b"".join([chunk async for chunk in reading])
    assert len(first + rest) == 4 * MIB


async def test_a_blob_that_shrinks_while_it_is_read_is_truncated(store: LocalBlobs, place: Path) -> None:
    await store.put("blob", fresh_stream(4, MIB))
    reading = store.get("blob")
    first = await anext(reading)
    os.truncate(place / "blob", len(first) + 10)
    assert len(await anext(reading)) == 10
    with pytest.raises(BlobTruncated, match="ended at"):
        await anext(reading)


def descriptors_of(path: Path) -> int:
    """How many descriptors of this process are open on the file."""
    identity = FileIdentity.of(path)
    return sum(identity_behind(int(name)) == identity for name in os.listdir("/dev/fd"))


def identity_behind(descriptor: int) -> FileIdentity | None:
    try:
        return FileIdentity.of(descriptor)
    except OSError:
        return None  # the one that listed the directory


async def test_a_read_that_is_left_early_or_cancelled_closes_its_file(store: LocalBlobs, place: Path) -> None:
    await store.put("blob", fresh_stream(4, MIB))
    reading = store.get("blob")
    async with aclosing(reading):
        await anext(reading)
        assert descriptors_of(place / "blob") == 1
    assert descriptors_of(place / "blob") == 0
    for turns in range(12):
        task = asyncio.create_task(read(store, "blob"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert descriptors_of(place / "blob") == 0


@pytest.mark.parametrize(("start", "end"), [(-1, None), (0, -1), (-5, -1)])
async def test_negative_bounds_are_a_mistake_of_the_caller(store: LocalBlobs, start: int, end: int | None) -> None:
    await store.put("blob", stream(b"x"))
    with pytest.raises(ValueError, match="negative"):
        await read(store, "blob", start, end)


async def test_only_blobs_are_listed(store: LocalBlobs, place: Path) -> None:
    await store.put("a/blob", stream(b"x"))
    put_oddities(place)
    assert await keys(store) == ["a/blob"]
    assert await is_missing(store, "a/directory")


def put_oddities(place: Path) -> None:
    (place / "a" / "directory").mkdir()
    (place / "a" / ".hidden").write_bytes(b"x")
    (place / TEMPORARY / "draft").write_bytes(b"x")
    (place / "a" / "link").symlink_to(place / "a" / "blob")
    (place / "loop").symlink_to(place)


async def test_a_clock_that_went_back_makes_no_blob_vanish(store: LocalBlobs, place: Path) -> None:
    await store.put("blob", stream(b"x"))
    future = time.time() + 1000
    os.utime(place / "blob", (future, future))
    assert [info async for info in store.list("", 0)] == [BlobInfo("blob", 1, 0.0)]


async def test_opening_removes_drafts_of_writers_that_are_gone_and_no_others(store: LocalBlobs, place: Path) -> None:
    """However young they are: a server that was killed and started again left them a moment ago."""
    stalled = Stalled(b"x" * MIB, b"y")
    putting = asyncio.create_task(store.put("blob", aiter(stalled)))
    async with asyncio.timeout(60):
        await stalled.stalled.wait()
    (written,) = temporaries(place)
    (place / TEMPORARY / "abandoned").write_bytes(b"x")
    other = LocalBlobs(place)
    await other.open()
    assert temporaries(place) == [written]
    await other.close()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting


async def test_where_locks_cannot_be_seen_only_drafts_that_nobody_wrote_to_for_long_go(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system, which this machine has none of."""
    monkeypatch.setattr(local_tree, "lies_on_shared", lambda _: True)
    os.makedirs(place / TEMPORARY)
    old = time.time() - ABANDONED_AFTER_SECONDS - 60
    for name, written in (("abandoned", old), (".tried", old), ("young", old + 120)):
        (place / TEMPORARY / name).write_bytes(b"x")
        os.utime(place / TEMPORARY / name, (written, written))
    store = LocalBlobs(place)
    await store.open()
    assert temporaries(place) == ["young"]
    await store.close()


async def test_drafts_of_writers_that_are_gone_go_every_so_often(place: Path) -> None:
    store = LocalBlobs(place, maintenance_seconds=0.01)
    await store.open()
    (place / TEMPORARY / "abandoned").write_bytes(b"x")

    async def gone() -> bool:
        return temporaries(place) == []

    await until(gone)
    await store.close()


async def test_a_draft_that_cannot_be_removed_keeps_no_other(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Directories stand for it, since root may remove whatever file there is."""
    for number in range(40):
        path = place / TEMPORARY / f"{number:02}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if number % 2 else path.write_bytes(b"x")
    store = LocalBlobs(place)
    await store.open()
    assert sorted(temporaries(place)) == [f"{number:02}" for number in range(1, 40, 2)]
    assert "19 more" in caplog.text
    await store.put("blob", stream(b"x"))
    await store.close()


async def test_a_file_system_that_tells_nothing_of_its_room_takes_blobs(
    store: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All zeros, as some in user space and shares of a virtual machine answer."""
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((0,) * 10))
    await store.put("blob", stream(b"x"))
    assert await read(store, "blob") == b"x"


async def test_a_draft_that_was_tidied_away_before_its_lock_is_begun_again(
    store: LocalBlobs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making a file and locking it another process may take it for abandoned."""
    flock, taken = fcntl.flock, 0

    def first_taken_away(descriptor: int, kind: int) -> None:
        nonlocal taken
        if not taken:
            taken += 1
            os.unlink(place / TEMPORARY / temporaries(place)[0])
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", first_taken_away)
    await store.put("blob", stream(b"x"))
    assert taken == 1
    assert await read(store, "blob") == b"x"
    assert temporaries(place) == []


async def test_a_put_whose_draft_was_removed_fails_and_leaves_nothing(store: LocalBlobs, place: Path) -> None:
    stalled = Stalled(b"x" * MIB)
    go_on = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * MIB
        stalled.stalled.set()
        await go_on.wait()
        yield b"y"

    putting = asyncio.create_task(store.put("blob", slow()))
    async with asyncio.timeout(60):
        await stalled.stalled.wait()
    (temporary,) = temporaries(place)
    os.unlink(place / TEMPORARY / temporary)
    go_on.set()
    with pytest.raises(StorageUnavailable):
        await putting
    assert await is_missing(store, "blob")


async def test_what_cannot_be_a_directory_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/milepost"), Path("/proc/mile/post")):
        with pytest.raises(Misconfigured, match=str(place)):
            await LocalBlobs(place).open()


async def report_of(place: Path, scarce: str, under: Sequence[str] = ()) -> dict[str, Any]:
    async with child(SCARCE, scarce, str(place), under=under) as scenario:
        report: dict[str, Any] = json.loads(await scenario.line())
    return report


EXPECTED = {
    "large": "StorageFull",
    "listed": ["before", "small"],
    "temporary": [],
    "opened when full": "open",
    "read when full": "before",
    "large with room": 4 * MIB,
    "listed at last": ["large", "small"],
}


async def test_a_full_disk(tmp_path: Path) -> None:
    """What does not fit leaves nothing behind; the rest can be read, deleted, and opened again."""
    disk = small_disk(tmp_path, 6 * 1024)
    report = await (report_of(tmp_path, "file-size") if disk is None else report_of(tmp_path, "disk", disk))
    assert report == EXPECTED


async def test_a_file_larger_than_the_system_allows(tmp_path: Path) -> None:
    assert await report_of(tmp_path, "file-size") == EXPECTED

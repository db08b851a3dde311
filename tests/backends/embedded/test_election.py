"""What the election by a lock on a local file promises beyond the contract."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from milepost_backends.contract import Election, Leadership, Misconfigured, StorageUnavailable
from milepost_backends.disk import filesystem as local_filesystem
from milepost_backends.embedded.election import (
    ANNOUNCEMENT_NAME,
    LOCK_NAME,
    EmbeddedElection,
    FileLock,
    read_locked,
    translate_errors,
)
from tests.support.children import child

pytestmark = pytest.mark.anyio

ONE, OTHER = "http://127.0.0.1:7071", "http://127.0.0.1:7072"
CANDIDATE = "tests.contracts.children.candidate"


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[EmbeddedElection]:
    candidate = EmbeddedElection(tmp_path, ONE, poll=0.02)
    await candidate.open()
    yield candidate
    await candidate.close()


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[EmbeddedElection]:
    candidate = EmbeddedElection(tmp_path, OTHER, poll=0.02)
    await candidate.open()
    yield candidate
    await candidate.close()


async def won(candidate: Election) -> Leadership:
    async with asyncio.timeout(60):
        return await candidate.campaign()


def remaining(leadership: Leadership) -> float:
    return leadership.remaining(time.monotonic())


async def test_the_lease_is_as_long_as_the_process_lives(one: EmbeddedElection) -> None:
    leadership = await won(one)
    assert leadership.remaining(0.0) == leadership.remaining(1e12) == math.inf


async def test_the_leader_is_named_at_once_and_only_while_it_leads(
    one: EmbeddedElection, other: EmbeddedElection
) -> None:
    leadership = await won(one)
    assert await one.leader() == await other.leader() == ONE
    await leadership.resign()
    assert await one.leader() is None
    await won(other)
    assert await one.leader() == await other.leader() == OTHER


async def test_a_killed_leader_is_not_named_although_its_name_still_stands_there(
    one: EmbeddedElection, tmp_path: Path
) -> None:
    async with child(CANDIDATE, "embedded", str(tmp_path), OTHER) as killed:
        assert await killed.line() == "ready"
        await killed.say("campaign")
        assert await killed.line() == "leading"
        assert await one.leader() == OTHER
        await killed.kill()
    assert OTHER.encode() in (tmp_path / ANNOUNCEMENT_NAME).read_bytes()
    assert await one.leader() is None
    await won(one)
    assert await one.leader() == ONE


async def test_a_paused_leader_still_leads(one: EmbeddedElection, tmp_path: Path) -> None:
    async with child(CANDIDATE, "embedded", str(tmp_path), OTHER) as paused:
        assert await paused.line() == "ready"
        await paused.say("campaign")
        assert await paused.line() == "leading"
        paused.pause()
        campaign = asyncio.create_task(one.campaign())
        done, _ = await asyncio.wait([campaign], timeout=1.0)
        assert not done
        assert await one.leader() == OTHER
        paused.resume()
        await paused.say("certain?")
        assert await paused.line() == "yes"
        await paused.kill()
        async with asyncio.timeout(60):
            assert remaining(await campaign) == math.inf


def delete(lock: Path) -> None:
    lock.unlink()


def replace(lock: Path) -> None:
    (lock.parent / "new").write_bytes(lock.read_bytes())
    (lock.parent / "new").rename(lock)


def move_directory(lock: Path) -> None:
    lock.parent.rename(lock.parent.with_suffix(".moved"))


@pytest.mark.parametrize("take_away", [delete, replace, move_directory])
async def test_without_the_lock_file_leadership_is_lost_for_good(
    tmp_path: Path, take_away: Callable[[Path], None]
) -> None:
    candidate = EmbeddedElection(tmp_path / "place", ONE, poll=0.02)
    await candidate.open()
    leadership = await won(candidate)
    lost = asyncio.create_task(leadership.wait_lost())
    os.link(tmp_path / "place" / LOCK_NAME, tmp_path / "kept")
    take_away(tmp_path / "place" / LOCK_NAME)
    assert remaining(leadership) <= 0
    async with asyncio.timeout(60):
        await lost
    (tmp_path / "place").mkdir(exist_ok=True)
    (tmp_path / "kept").replace(tmp_path / "place" / LOCK_NAME)
    assert remaining(leadership) <= 0
    assert remaining(await won(candidate)) == math.inf
    await candidate.close()


async def test_the_loss_is_noticed_without_anybody_asking(one: EmbeddedElection, tmp_path: Path) -> None:
    leadership = await won(one)
    lost = asyncio.create_task(leadership.wait_lost())
    await asyncio.sleep(0.05)
    assert not lost.done()
    os.unlink(tmp_path / LOCK_NAME)
    async with asyncio.timeout(60):
        await lost


async def test_a_lock_file_that_is_deleted_while_another_waits_is_made_anew(
    one: EmbeddedElection, other: EmbeddedElection, tmp_path: Path
) -> None:
    leadership = await won(one)
    campaign = asyncio.create_task(other.campaign())
    await asyncio.sleep(0.05)
    assert not campaign.done()
    os.unlink(tmp_path / LOCK_NAME)
    async with asyncio.timeout(60):
        assert remaining(await campaign) == math.inf
    assert remaining(leadership) <= 0
    assert await one.leader() == OTHER


async def test_asking_who_leads_holds_no_candidate_up(one: EmbeddedElection, other: EmbeddedElection) -> None:
    asking = True

    async def ask() -> None:
        while asking:
            assert await other.leader() in (ONE, None)
            await asyncio.sleep(0)

    asked = asyncio.create_task(ask())
    for _ in range(5):
        await (await won(one)).resign()
    asking = False
    await asked


@pytest.mark.parametrize("content", [b"", b"not json", b"[]", b"{}", b'{"advertise": 5}', b"\xff\xfe"])
async def test_an_announcement_that_makes_no_sense_names_nobody(
    one: EmbeddedElection, other: EmbeddedElection, tmp_path: Path, content: bytes
) -> None:
    await won(one)
    overwrite(tmp_path / ANNOUNCEMENT_NAME, content)
    assert await other.leader() is None


def overwrite(path: Path, content: bytes) -> None:
    """In place: the same file, and locked as it was."""
    with path.open("r+b") as file:
        file.truncate()
        file.write(content)


async def test_the_announcement_is_json(one: EmbeddedElection, tmp_path: Path) -> None:
    await won(one)
    assert json.loads((tmp_path / ANNOUNCEMENT_NAME).read_text()) == {"schema": 1, "advertise": ONE}


async def test_a_leader_that_cannot_be_announced_leads_all_the_same(
    one: EmbeddedElection, other: EmbeddedElection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkdir(tmp_path / ANNOUNCEMENT_NAME)
    with caplog.at_level(logging.WARNING):
        leadership = await won(one)
    assert remaining(leadership) == math.inf
    assert "cannot write the leader's address" in caplog.text
    os.rmdir(tmp_path / ANNOUNCEMENT_NAME)
    assert await other.leader() is None
    await leadership.resign()
    await won(other)
    assert await one.leader() == OTHER


async def test_a_child_program_does_not_inherit_the_lock(one: EmbeddedElection, other: EmbeddedElection) -> None:
    leadership = await won(one)
    sleeping = await asyncio.create_subprocess_exec("sleep", "60", close_fds=False)
    try:
        await leadership.resign()
        assert remaining(await won(other)) == math.inf
    finally:
        with suppress(ProcessLookupError):
            sleeping.kill()
        await sleeping.wait()


@pytest.fixture
def network_mount(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No such mount can be made here, so the kernel's table of mounts is a file of the test's."""
    table = tmp_path / "mountinfo"
    table.write_text(f"27 1 0:40 / {tmp_path.resolve()} rw - cifs //server/share rw\n")
    monkeypatch.setattr(local_filesystem, "MOUNTINFO", table)
    return tmp_path


async def test_a_directory_on_a_network_file_system_is_refused(network_mount: Path) -> None:
    with pytest.raises(Misconfigured, match="cifs"):
        await EmbeddedElection(network_mount / "place", ONE).open()


async def test_what_cannot_be_a_directory_or_a_lock_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.makedirs(tmp_path / "place" / LOCK_NAME)
    for directory in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "place"):
        with pytest.raises(Misconfigured):
            await EmbeddedElection(directory, ONE).open()


async def test_a_directory_that_went_away_makes_the_election_unavailable(tmp_path: Path) -> None:
    candidate = EmbeddedElection(tmp_path / "place", ONE)
    await candidate.open()
    move_directory(tmp_path / "place" / LOCK_NAME)
    with pytest.raises(StorageUnavailable):
        await candidate.campaign()
    assert await candidate.leader() is None


def held(lock: FileLock | None) -> FileLock:
    assert lock is not None
    assert lock.is_held()
    return lock


def test_a_lock_is_taken_once_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = held(FileLock.try_take(path))
    before = len(os.listdir("/dev/fd"))
    for _ in range(20):
        assert FileLock.try_take(path) is None
    assert len(os.listdir("/dev/fd")) == before
    first.release()
    first.release()
    assert not first.is_held()
    held(FileLock.try_take(path)).release()


def test_a_file_that_is_replaced_just_before_it_is_locked_is_not_the_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The gap between open and lock cannot be hit from outside, so the lock call itself does it."""
    path = tmp_path / "lock"
    flock = fcntl.flock
    deletions = 0

    def late_flock(descriptor: int, kind: int) -> None:
        nonlocal deletions
        if deletions < 2:
            deletions += 1
            path.unlink()
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", late_flock)
    lock = held(FileLock.try_take(path))
    assert deletions == 2
    assert FileLock.try_take(path) is None
    lock.release()


def test_what_is_placed_is_complete_and_locked(tmp_path: Path) -> None:
    path = tmp_path / "announcement.json"
    assert read_locked(path) is None
    first = FileLock.place(path, b"first")
    assert read_locked(path) == b"first"
    second = FileLock.place(path, b"second, and longer")
    assert read_locked(path) == b"second, and longer"
    assert not first.is_held()
    assert held(second) is second
    first.release()
    assert read_locked(path) == b"second, and longer"
    second.release()
    assert read_locked(path) is None
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, Misconfigured),
        (errno.EROFS, Misconfigured),
        (errno.ENOLCK, Misconfigured),
        (errno.EIO, StorageUnavailable),
    ],
)
def test_errors_of_the_system_are_translated(number: int, kind: type[Exception]) -> None:
    """No permission, read-only, no locks left to give, and an error of the device."""
    with pytest.raises(kind, match="cannot hold elections: "), translate_errors("hold elections"):
        raise OSError(number, os.strerror(number))

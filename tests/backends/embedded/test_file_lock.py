"""Locks on files, where the election alone would not show it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from milepost_backends.contract import Misconfigured, StorageUnavailable
from milepost_backends.embedded.file_lock import FileLock, read_locked, translate_errors


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

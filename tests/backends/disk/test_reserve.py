"""The reserve: a file of real blocks that is given up, made anew, and looked after when others were at it."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from milepost_backends.disk.reserve import LARGEST, SMALLEST, Reserve, room_on

HOUR = 3600.0


class Clock:
    """Monotonic seconds that a test moves on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.reserve"


@contextmanager
def free_on_the_disk(size: int) -> Iterator[None]:
    """What statvfs tells, of a disk that is large; a really full one is in test_full_disk.py."""
    status = os.statvfs_result((4096, 4096, 2**20, size // 4096, size // 4096, 2**20, 2**20, 2**20, 0, 255))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: status)
        yield


@contextmanager
def a_quota(size: int) -> Iterator[None]:
    """No more than that for this user. It takes a file system with quotas, so the answer to fallocate is made up."""
    real = os.posix_fallocate

    def allocate(descriptor: int, offset: int, length: int) -> None:
        if offset + length > size:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        real(descriptor, offset, length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "posix_fallocate", allocate)
        yield


def test_it_is_made_of_real_blocks_for_its_owner_alone(path: Path) -> None:
    reserve = Reserve(path)
    reserve.keep()
    status = path.stat()
    assert SMALLEST <= status.st_size <= LARGEST
    assert status.st_blocks * 512 >= status.st_size
    assert status.st_mode & 0o777 == 0o600
    assert reserve.missing() is None


def test_while_there_is_not_twice_as_much_it_is_given_up_once_and_not_made(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reserve = Reserve(path)
    reserve.keep()
    with free_on_the_disk(LARGEST):
        assert reserve.give_up()
        assert not path.exists()
        assert not reserve.give_up()
        reserve.keep()
        assert not path.exists()
        assert "bytes left, which are reserved for removals and locks" in (reserve.missing() or "")
    assert len(caplog.records) == 1
    caplog.set_level(logging.INFO)
    clock_free = Reserve(path)
    clock_free.keep()
    assert path.exists()
    assert clock_free.missing() is None


@pytest.mark.parametrize("how", ["given up by another process", "deleted", "emptied"])
def test_it_is_made_anew_when_somebody_else_took_it(path: Path, how: str) -> None:
    reserve = Reserve(path)
    reserve.keep()
    size = path.stat().st_size
    if how == "emptied":
        path.write_bytes(b"")
    elif how == "deleted":
        path.unlink()
    else:
        other = Reserve(path)
        other.keep()
        assert other.give_up()
    reserve.keep()
    assert path.stat().st_size == size


def test_it_is_missed_when_somebody_else_took_it_and_there_is_no_room_for_another(path: Path) -> None:
    reserve = Reserve(path)
    reserve.keep()
    path.unlink()
    with free_on_the_disk(LARGEST):
        reserve.keep()
        assert reserve.missing() is not None


def test_a_file_system_that_tells_nothing_of_its_room_is_not_taken_for_full(path: Path) -> None:
    """Some in user space, and shares of a virtual machine, answer statvfs with nothing but zeros."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: os.statvfs_result((0,) * 10))
        free, kept = room_on(path.parent)
        assert free > 10 * kept > 0
        reserve = Reserve(path)
        assert reserve.missing() is None
        assert not reserve.is_short()
        reserve.keep()
        assert path.stat().st_size == SMALLEST


def test_a_quota_that_is_used_up_counts_like_a_full_disk(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The disk itself has ample room, which says nothing."""
    clock = Clock()
    reserve = Reserve(path, clock)
    reserve.keep()
    with a_quota(LARGEST):
        assert reserve.give_up()
        reserve.keep()
        assert not path.exists(), "what was given up is not taken back at once"
        assert reserve.missing() is not None
        assert not reserve.may_be_tried()
        clock.now += HOUR
        assert reserve.may_be_tried()
        reserve.keep()
        assert not path.exists()
        assert reserve.missing() is not None
        clock.now += HOUR
        assert reserve.missing() is not None
    caplog.set_level(logging.INFO)
    reserve.keep()
    assert path.exists()
    assert reserve.missing() is None
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]

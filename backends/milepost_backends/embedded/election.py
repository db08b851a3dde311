"""Elects a leader by an exclusive lock on a file in a local directory.

The process that holds the lock leads. The operating system releases the lock when this process dies, so the lock is
also the leader's lease. A process that is only paused still holds the lock.

The locked file is ``leader.lock``. A second file, ``leader.json``, names the leader, which locks this file as well.
Only a complete and locked file is moved to the name ``leader.json``. So a locked ``leader.json`` is from the current
leader, and not from a predecessor that died.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import math
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from milepost_backends.contract import Leadership, StorageUnavailable
from milepost_backends.disk.filesystem import (
    PRIVATE_FILE,
    FileIdentity,
    keep_private,
    make_durable_directory,
    require_local,
)
from milepost_backends.embedded.errors import os_error

LOCK_NAME = "leader.lock"
ANNOUNCEMENT_NAME = "leader.json"

log = logging.getLogger(__name__)

_FOR_LOCKING = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Translate errors of the operating system into those of the contract. ``doing`` completes "cannot …"."""
    try:
        yield
    except OSError as error:
        raise os_error(error, f"cannot {doing}") from error


class FileLock:
    """An exclusive lock on the file at ``path``, until it is released. It also excludes other locks of the same
    process.

    No method awaits. A program that this process starts does not get the file descriptor. A forked child that continues
    without exec shares the locks of its parent.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = os.fspath(path)
        self._descriptor: int | None = descriptor
        self._identity = FileIdentity.of(descriptor)

    @staticmethod
    def prepare(path: Path) -> None:
        """Make the file at ``path`` if it is absent, and check that it can be opened for locking. Raises OSError."""
        os.close(os.open(path, _FOR_LOCKING, PRIVATE_FILE))

    @classmethod
    def try_take(cls, path: Path) -> FileLock | None:
        """Lock the file at ``path``, which is made if it is absent. Return None while another holder has the lock.

        Raises OSError.
        """
        while True:
            descriptor = os.open(path, _FOR_LOCKING, PRIVATE_FILE)
            if not _lock(descriptor, fcntl.LOCK_EX):
                os.close(descriptor)
                return None
            lock = cls(path, descriptor)
            if lock.is_held():
                return lock
            lock.release()  # another file has the path since the open, so this lock decides no election

    @classmethod
    def place(cls, path: Path, content: bytes) -> FileLock:
        """Replace the file at ``path`` by a new, locked file with ``content``. The replacement is atomic.

        Only one process may do this for a path at a time. Raises OSError.
        """
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, _FOR_LOCKING | os.O_TRUNC, PRIVATE_FILE)
        try:
            _lock(descriptor, fcntl.LOCK_EX)  # needs no wait: no other process knows of the new file yet
            os.write(descriptor, content)
            draft.rename(path)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def is_held(self) -> bool:
        """Return whether this lock is held, and the path still names the locked file. Cheap: it costs one call of
        ``stat``.
        """
        try:
            status = os.stat(self._path)
        except OSError:
            return False  # without a stat it is not certain that the path names the locked file
        return self._descriptor is not None and (status.st_dev, status.st_ino) == self._identity

    def release(self) -> None:
        """Release the lock, so that another holder can take it. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def read_locked(path: Path) -> bytes | None:
    """Return the content of the file at ``path`` if a process holds a lock on the file, else None. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return None if _lock(descriptor, fcntl.LOCK_SH) else os.read(descriptor, 65536)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class EmbeddedElection:
    """An `Election` among the processes of one machine that share ``directory``.

    ``advertise`` is the URL of this replica, which `leader` returns to the other processes. About every ``poll``
    seconds a candidate tries to take the lock, and the leader checks that it still holds the lock.
    """

    def __init__(self, directory: Path, advertise: str, *, poll: float = 0.1) -> None:
        self._directory = directory
        self._advertise = advertise
        self._poll = poll
        self._open = False
        self._leadership: LockLeadership | None = None

    async def open(self) -> None:
        """Make the directory and the lock file, and check that both can be used; see `Election.open`."""
        require_local(self._directory)
        with translate_errors(f"hold elections in {self._directory}"):
            make_durable_directory(self._directory)
            for name in (LOCK_NAME, ANNOUNCEMENT_NAME):
                keep_private(self._directory / name)
            FileLock.prepare(self._directory / LOCK_NAME)
        self._open = True

    async def close(self) -> None:
        """Withdraw this candidate, and release its locks if it leads; see `Election.close`.

        A running campaign ends with `StorageUnavailable` when it next tries the lock.
        """
        self._open = False
        if self._leadership is not None:
            await self._leadership.resign()

    async def campaign(self) -> Leadership:
        """Try the lock again and again until this process holds it, and so leads; see `Election.campaign`.

        Raises `Misconfigured` if this user may not take the lock.
        """
        while self._open:
            with translate_errors(f"campaign in {self._directory}"):
                if lock := FileLock.try_take(self._directory / LOCK_NAME):
                    self._leadership = self._lead(lock)
                    return self._leadership
            await asyncio.sleep(self._poll * random.uniform(0.5, 1.5))
        raise StorageUnavailable("the election is not open")

    async def leader(self) -> str | None:
        """Return the URL in ``leader.json``; None unless a leader holds a lock on this file. See `Election.leader`."""
        with translate_errors(f"see who leads in {self._directory}"):
            content = read_locked(self._directory / ANNOUNCEMENT_NAME)
        return _named_in(content) if content else None

    def _lead(self, lock: FileLock) -> LockLeadership:
        """Write the URL of this replica into ``leader.json``, and return the leadership that ``lock`` gives.

        If a full disk prevents the writing, this replica leads all the same.
        """
        content = json.dumps({"schema": 1, "advertise": self._advertise}).encode()
        try:
            announcement = FileLock.place(self._directory / ANNOUNCEMENT_NAME, content)
        except OSError as error:
            log.warning("lead, but cannot write the leader's address to %s: %s", self._directory, error.strerror)
            return LockLeadership([lock], self._poll)
        return LockLeadership([lock, announcement], self._poll)


class LockLeadership:
    """A `Leadership` that lasts until the leader resigns, or its lock file is deleted or replaced."""

    def __init__(self, locks: Sequence[FileLock], poll: float) -> None:
        """Hold ``locks``. The leadership lasts as long as the first of them is held, which is checked every ``poll``
        seconds.
        """
        self._locks = locks
        self._poll = poll
        self._over = asyncio.Event()

    def remaining(self, now: float) -> float:
        """Return infinity while the lock is held, and 0 for ever after: a file lock has no time limit. See
        `Leadership.remaining`.
        """
        del now  # the time does not matter, since a file lock does not expire
        if self._locks[0].is_held():
            return math.inf
        self._end()
        return 0.0

    async def wait_lost(self) -> None:
        """Return once the lock is lost, or this replica has resigned; see `Leadership.wait_lost`."""
        over = asyncio.create_task(self._over.wait())
        try:
            while self.remaining(time.monotonic()) > 0:
                await asyncio.wait((over,), timeout=self._poll)
        finally:
            over.cancel()

    async def resign(self) -> None:
        """Release the locks, so that another process can lead; see `Leadership.resign`."""
        self._end()

    def _end(self) -> None:
        for lock in reversed(self._locks):
            lock.release()
        self._over.set()


def _named_in(content: bytes) -> str | None:
    """Return the URL in the content of ``leader.json``; None if this release does not understand the content."""
    try:
        announcement = json.loads(content)
    except ValueError:
        return None
    advertise = announcement.get("advertise") if isinstance(announcement, dict) else None
    return advertise if isinstance(advertise, str) else None

"""Elect a leader by an exclusive lock on a file in a local directory.

The operating system releases the lock when its holder dies, so the lock is lease and election in one: its holder leads
for as long as it lives. A process that is only paused still holds the lock.

``leader.lock`` decides. ``leader.json`` names the leader. The leader locks that file as well, and makes it appear
complete and locked, so a locked ``leader.json`` is from the current leader and not from a predecessor that died.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from milepost_backends.contract import Leadership, StorageUnavailable
from milepost_backends.disk.filesystem import keep_private, make_durable_directory, require_local
from milepost_backends.embedded.file_lock import FileLock, read_locked, translate_errors

LOCK_NAME = "leader.lock"
ANNOUNCEMENT_NAME = "leader.json"

log = logging.getLogger(__name__)


class EmbeddedElection:
    """An `Election` among the processes of one machine that share ``directory``.

    ``advertise`` is the URL that other replicas are given. ``poll`` (seconds) is about how often a candidate tries the
    lock, and how often its holder checks it.
    """

    def __init__(self, directory: Path, advertise: str, *, poll: float = 0.1) -> None:
        self._directory = directory
        self._advertise = advertise
        self._poll = poll
        self._open = False
        self._leadership: LockLeadership | None = None

    async def open(self) -> None:
        """See `Election.open`."""
        require_local(self._directory)
        with translate_errors(f"hold elections in {self._directory}"):
            make_durable_directory(self._directory)
            for name in (LOCK_NAME, ANNOUNCEMENT_NAME):
                keep_private(self._directory / name)
            FileLock.prepare(self._directory / LOCK_NAME)
        self._open = True

    async def close(self) -> None:
        """See `Election.close`. A running campaign ends with `StorageUnavailable` when it next tries the lock."""
        self._open = False
        if self._leadership is not None:
            await self._leadership.resign()

    async def campaign(self) -> Leadership:
        """See `Election.campaign`. Raises `Misconfigured` where this user may not take the lock."""
        while self._open:
            with translate_errors(f"campaign in {self._directory}"):
                if lock := FileLock.try_take(self._directory / LOCK_NAME):
                    self._leadership = self._lead(lock)
                    return self._leadership
            await asyncio.sleep(self._poll * random.uniform(0.5, 1.5))
        raise StorageUnavailable("the election is not open")

    async def leader(self) -> str | None:
        """See `Election.leader`."""
        with translate_errors(f"see who leads in {self._directory}"):
            content = read_locked(self._directory / ANNOUNCEMENT_NAME)
        return _named_in(content) if content else None

    def _lead(self, lock: FileLock) -> LockLeadership:
        """Announce the leader. It leads even if it cannot be announced because the disk is full."""
        content = json.dumps({"schema": 1, "advertise": self._advertise}).encode()
        try:
            announcement = FileLock.place(self._directory / ANNOUNCEMENT_NAME, content)
        except OSError as error:
            log.warning("lead, but cannot write the leader's address to %s: %s", self._directory, error.strerror)
            return LockLeadership([lock], self._poll)
        return LockLeadership([lock, announcement], self._poll)


class LockLeadership:
    """A `Leadership` that lasts until it is resigned, or until the lock file is deleted or replaced."""

    def __init__(self, locks: Sequence[FileLock], poll: float) -> None:
        """Hold ``locks``, of which the first decides."""
        self._locks = locks
        self._poll = poll
        self._over = asyncio.Event()

    def remaining(self, now: float) -> float:
        """See `Leadership.remaining`. The result is infinite, or zero for good."""
        del now  # a lock does not age
        if self._locks[0].is_held():
            return math.inf
        self._end()
        return 0.0

    async def wait_lost(self) -> None:
        """See `Leadership.wait_lost`. It also returns after `resign`."""
        while self.remaining(time.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):
                    await self._over.wait()

    async def resign(self) -> None:
        """See `Leadership.resign`."""
        self._end()

    def _end(self) -> None:
        for lock in reversed(self._locks):
            lock.release()
        self._over.set()


def _named_in(content: bytes) -> str | None:
    """Return the advertised URL in an announcement, or None if this release does not understand it."""
    try:
        announcement = json.loads(content)
    except ValueError:
        return None
    advertise = announcement.get("advertise") if isinstance(announcement, dict) else None
    return advertise if isinstance(advertise, str) else None

"""Directories that are of use to one process only, and are removed once it has ended, however that came about."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from milepost.portable import try_lock

_PREFIX = "milepost-base-"
_LOCK = ".lock"

_log = logging.getLogger(__name__)


class CacheDirectory:
    """A new directory, and a file beside it that is locked as long as this process needs it."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            self.path = parent / f"{_PREFIX}{secrets.token_hex(8)}"
            self._lock_path = self.path.with_name(self.path.name + _LOCK)
            self._lock = os.open(self._lock_path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            if try_lock(self._lock) and self._lock_path.exists():
                break
            os.close(self._lock)  # somebody took it for a leftover in between, and removes it
        self.path.mkdir()

    def remove(self) -> None:
        """Remove the directory and all in it. What cannot be removed stays, and another process may remove it later."""
        shutil.rmtree(self.path, ignore_errors=True)
        _unlink_and_close(self._lock_path, self._lock)


def remove_leftovers(parent: Path) -> int:
    """Remove the directories of processes that have ended, and return how many there were."""
    count = 0
    for lock_path in parent.glob(f"{_PREFIX}*{_LOCK}"):
        with suppress(OSError):  # another process removes it as well, or it is another user's, whose processes do
            lock = os.open(lock_path, os.O_RDWR)
            try:
                locked = try_lock(lock)
            except OSError:
                locked = False
            if not locked:
                os.close(lock)
                continue
            shutil.rmtree(lock_path.with_name(lock_path.name.removesuffix(_LOCK)), ignore_errors=True)
            _unlink_and_close(lock_path, lock)
            count += 1
    if count:
        _log.info("%d directories in %s that ended processes had left were removed", count, parent)
    return count


def _unlink_and_close(path: Path, descriptor: int) -> None:
    """Remove the file of a lock that is held. Windows does that only once it is closed."""
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)
    if sys.platform == "win32":
        with suppress(OSError):
            path.unlink()

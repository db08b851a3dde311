"""Reserves room on a disk for writes that free room: removals of pointers, locks and take-overs.

The reserve is a file of allocated blocks beside the SQLite database of the pointers. When the disk is full, the file is
deleted, and writes that add data are refused until there is enough room to make the file again. A write of a blob must
leave as many bytes free as the file takes, so that blobs do not use the freed room.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from milepost_backends.disk.filesystem import PRIVATE_FILE

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
LARGEST: Final = 8 * 1024 * 1024
SMALLEST: Final = 1024 * 1024
_PART: Final = 16
"""The divisor of the size of the disk that limits the reserve: at most one sixteenth of a small disk is reserved."""
_NEXT_TO_NOTHING: Final = 256 * 1024
"""The bytes that a database needs to open, and to work for a moment."""
_PAUSE_SECONDS: Final = 5.0
"""The least seconds between two attempts to make the reserve, after the system refused its room."""

log = logging.getLogger("milepost.embedded")


def room_on(path: Path | int) -> tuple[int, int]:
    """Return how many bytes this user has free on the disk of ``path``, and how many a `Reserve` on this disk takes.

    A file system that reports nothing (zeros, as some in user space do) does not count as full. Raises OSError.
    """
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize if status.f_blocks else sys.maxsize
    return free, max(SMALLEST, min(LARGEST, status.f_blocks * status.f_frsize // _PART))


class Reserve:
    """Room on a disk that is kept for writes that free room, in the form of an allocated file at ``path``.

    Any thread may call `missing` and `may_be_tried`; only one thread calls the other methods. ``clock`` returns
    monotonic seconds.

    A quota may forbid room that the disk reports as free, and only an attempt to take the room shows that. If such an
    attempt fails, or a write finds no room although the disk reports some, the reserve counts the disk as full until it
    was able to take twice the reserved room.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._name = os.fspath(path)
        self._clock = clock
        self._held = False
        self._logged = False
        self._denied: str | None = None
        self._denied_until = 0.0

    @property
    def held(self) -> bool:
        """Return whether the file of the reserve existed when `keep` or `give_up` last ended."""
        return self._held

    @property
    def settled(self) -> bool:
        """Return whether the file of the reserve existed then, and no attempt to take room has failed before."""
        return self._held and self._denied is None

    def missing(self) -> str | None:
        """Return in words why writes that add data are refused; None while there is room. Cheap."""
        if self._held:
            return None
        if (denied := self._denied) is not None:
            return denied
        try:
            free, kept = room_on(self._path.parent)
        except OSError:
            return None  # if the free room cannot be read, the disk does not count as full
        if free >= 2 * kept:
            return None
        return f"the disk of {self._path.parent} has {free} bytes left, which are reserved for removals and locks"

    def may_be_tried(self) -> bool:
        """Return whether the last attempt to make the reserve failed, and the pause after it is over.

        If so, `keep` would try again to make the reserve.
        """
        return self._denied is not None and self._clock() >= self._denied_until

    def keep(self) -> None:
        """Make the file of the reserve if it does not exist and there is ample room for it."""
        self._held = self._is_there()
        if not self._held and (self._denied is None or self.may_be_tried()):
            self._try()
        if self._held and self._logged:
            log.info("the disk of %s has room again: writes that grow are accepted", self._path.parent)
            self._logged = False
        elif not self._held and (why := self.missing()) is not None:
            self._log_once("%s; writes that grow are refused: delete what is not needed, or make the disk larger", why)

    def is_short(self) -> bool:
        """Return whether the disk has less room than an SQLite database needs to open and to work for a moment."""
        try:
            return room_on(self._path.parent)[0] < _NEXT_TO_NOTHING or self.lacks(_NEXT_TO_NOTHING)
        except OSError:
            return False

    def lacks(self, size: int) -> bool:
        """Return whether the system refuses to allocate ``size`` more bytes. Allocated bytes are freed at once."""
        try:
            with TemporaryFile(dir=self._path.parent) as trial:
                os.posix_fallocate(trial.fileno(), 0, size)
        except OSError as error:
            return error.errno in NO_ROOM
        return False

    def give_up(self) -> bool:
        """Delete the reserve to free its room; return whether it existed."""
        self._held = False
        try:
            self._path.unlink()
        except OSError:
            return False
        finally:
            self._log_once(
                "the disk of %s is full: writes that grow are refused, removals and locks go on", self._path.parent
            )
            if self.missing() is None:
                self._deny("a write found no room, though the disk reports some")
        return True

    def _is_there(self) -> bool:
        try:
            return os.stat(self._name).st_size >= SMALLEST
        except OSError:
            return False

    def _try(self) -> None:
        try:
            free, kept = room_on(self._path.parent)
            if free >= 2 * kept:
                self._make(kept, kept if self._denied is None else 2 * kept)
                self._held = True
            self._denied = None
        except OSError as error:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            if error.errno in NO_ROOM:
                self._deny(str(error.strerror))
            self._log_once("cannot keep room for removals in %s: %s", self._path, error.strerror)

    def _make(self, size: int, first: int) -> None:
        """Allocate ``first`` bytes for the file of the reserve, and then free all but ``size`` of them.

        After a refusal, ``first`` is larger, to prove that there is room for more than the reserve.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            os.posix_fallocate(descriptor, 0, first)
            if first > size:
                os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def _deny(self, why: str) -> None:
        self._denied = f"there is no room in {self._path.parent} for more than removals and locks: {why}"
        self._denied_until = self._clock() + _PAUSE_SECONDS

    def _log_once(self, text: str, *values: object) -> None:
        """Log an error about missing room, unless such an error was logged since there last was room."""
        if not self._logged:
            log.error(text, *values)
            self._logged = True

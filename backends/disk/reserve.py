"""Room on a disk that is kept for what frees room: pointers' removals, locks and take-overs.

A file of real blocks lies beside the database. When the disk is full it is given up, and what grows is refused until
there is so much room again that it can be made anew. Blobs leave as much room as it takes, so that they do not eat what
was given up.
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

from backends.disk.filesystem import PRIVATE_FILE

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
LARGEST: Final = 8 * 1024 * 1024
SMALLEST: Final = 1024 * 1024
_PART: Final = 16
"""Of a small disk not more than this part is kept."""
_NEXT_TO_NOTHING: Final = 256 * 1024
"""What a database takes to be opened, and some for the next moment."""
_PAUSE_SECONDS: Final = 5.0
"""After the system refused the room, or what is free was no good, it is asked again no sooner."""

log = logging.getLogger("milepost.embedded")


def room_on(path: Path | int) -> tuple[int, int]:
    """Bytes that are free for this user on the disk of ``path``, and how many are kept. Raises OSError.

    A file system that tells nothing (zeros, as some in user space answer) is not taken for full.
    """
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize if status.f_blocks else sys.maxsize
    return free, max(SMALLEST, min(LARGEST, status.f_blocks * status.f_frsize // _PART))


class Reserve:
    """The file at ``path``. `missing` and `may_be_tried` may be asked by any thread; everything else is for one.

    ``clock`` gives monotonic seconds. What is free on a disk may be forbidden by a quota, which only the attempt to
    take it tells: once it failed, or a write found no room where there seemed to be some, the system's word on what is
    free is not believed until twice the room could be had.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._held = False
        self._told = False
        self._denied: str | None = None
        self._denied_until = 0.0

    @property
    def held(self) -> bool:
        """Whether the room is there, as of the last `keep`."""
        return self._held

    def missing(self) -> str | None:
        """Why nothing may be written that grows, in words; None while the room is there, or can be had. Cheap."""
        if self._held:
            return None
        if (denied := self._denied) is not None:
            return denied
        try:
            free, kept = room_on(self._path.parent)
        except OSError:
            return None  # it is not the room that is wrong there
        if free >= 2 * kept:
            return None
        return f"the disk of {self._path.parent} has {free} bytes left, which are kept for removals and locks"

    def may_be_tried(self) -> bool:
        """Whether it is time to `keep` again, also if nothing is written that would do so."""
        return self._denied is not None and self._clock() >= self._denied_until

    def keep(self) -> None:
        """Make the file, if it is not there (whoever took it) and there is ample room for it."""
        self._held = self._is_there()
        if not self._held and (self._denied is None or self.may_be_tried()):
            self._try()
        if self._held and self._told:
            log.info("there is room on the disk of %s again", self._path.parent)
            self._told = False
        elif not self._held and (why := self.missing()) is not None:
            self._tell("%s; remove what is not needed, or make the disk larger", why)

    def is_short(self) -> bool:
        """Whether there is next to no room left at all."""
        try:
            return room_on(self._path.parent)[0] < _NEXT_TO_NOTHING or self.lacks(_NEXT_TO_NOTHING)
        except OSError:
            return False

    def lacks(self, size: int) -> bool:
        """Whether the system would not give so many bytes beside the reserve, as a trial shows."""
        try:
            with TemporaryFile(dir=self._path.parent) as trial:
                os.posix_fallocate(trial.fileno(), 0, size)
        except OSError as error:
            return error.errno in NO_ROOM
        return False

    def give_up(self) -> bool:
        """Free the room; whether there was any."""
        self._held = False
        try:
            self._path.unlink()
        except OSError:
            return False
        finally:
            self._tell("the disk of %s is full: what grows is refused, removals and locks go on", self._path.parent)
            if self.missing() is None:
                self._deny("a write found none, though some is free on the disk")
        return True

    def _is_there(self) -> bool:
        try:
            return self._path.stat().st_size >= SMALLEST
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
            self._tell("cannot keep room for removals in %s: %s", self._path, error.strerror)

    def _make(self, size: int, first: int) -> None:
        """Take ``first`` bytes, and then give back all but ``size``."""
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

    def _tell(self, text: str, *values: object) -> None:
        """Once, until there is room again."""
        if not self._told:
            log.error(text, *values)
            self._told = True

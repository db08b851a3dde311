"""Room on a disk that is kept for what frees room: pointers' removals, locks and take-overs.

A file of real blocks lies beside the database. When the disk is full it is given up, and what grows is refused until
there is so much room again that it can be made anew. Blobs leave as much room as it takes, so that they do not eat what
was given up.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from backends.local_filesystem import PRIVATE_FILE

LARGEST: Final = 8 * 1024 * 1024
SMALLEST: Final = 1024 * 1024
_PART: Final = 16
"""Of a small disk not more than this part is kept."""
_NEXT_TO_NOTHING: Final = 256 * 1024
"""What a database takes to be opened, and some for the next moment."""

log = logging.getLogger("milepost.embedded")


def room_on(path: Path | int) -> tuple[int, int]:
    """Bytes that are free for this user on the disk of ``path``, and how many are kept. Raises OSError."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize, max(SMALLEST, min(LARGEST, status.f_blocks * status.f_frsize // _PART))


class Reserve:
    """The file at ``path``. `missing` may be asked by any thread; everything else is for one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = False
        self._told = False

    def missing(self) -> str | None:
        """Why nothing may be written that grows, in words; None while the room is there, or can be had. Cheap."""
        if self._held:
            return None
        try:
            free, kept = room_on(self._path.parent)
        except OSError:
            return None  # it is not the room that is wrong there
        if free >= 2 * kept:
            return None
        return f"the disk of {self._path.parent} has {free} bytes left, which are kept for removals and locks"

    def keep(self) -> None:
        """Make the file, if it is not there and there is ample room for it."""
        if self._held:
            return
        try:
            free, kept = room_on(self._path.parent)
            if self._path.exists() and self._path.stat().st_size >= SMALLEST:
                self._held = True
            elif free >= 2 * kept:
                self._make(kept)
                self._held = True
        except OSError as error:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._tell("cannot keep room for removals in %s: %s", self._path, error.strerror)
        if self._held and self._told:
            log.info("there is room on the disk of %s again", self._path.parent)
            self._told = False
        elif not self._held:
            self._tell("%s; remove what is not needed, or make the disk larger", self.missing())

    def is_short(self) -> bool:
        """Whether there is next to no room left at all."""
        try:
            return room_on(self._path.parent)[0] < _NEXT_TO_NOTHING
        except OSError:
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
        return True

    def _make(self, size: int) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)

    def _tell(self, text: str, *values: object) -> None:
        """Once, until there is room again."""
        if not self._told:
            log.error(text, *values)
            self._told = True

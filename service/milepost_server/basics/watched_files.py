"""Keeps a value that was read from files, and reads it again when the files change; until then the old value stays in
use.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LOOK_SECONDS: Final = 1.0
"""The seconds between two checks of the files. Changed files are read once two checks in a row have found the same
change, so that no half-written file is read.
"""

_Look = tuple[tuple[int, int, int] | None, ...]


class WatchedFiles(Generic[T]):
    """Holds, as ``now``, the value that ``read`` made from ``files``, and reads the files again when they change.

    ``what`` names the value in the log. If changed files cannot be used, the reason is logged once to ``log``, and the
    old value stays. ``on_change`` is called with the old and the new value. Symbolic links are followed: Kubernetes
    updates a mounted Secret by replacing a link above its files, and this counts as a change.
    """

    def __init__(
        self,
        files: tuple[Path, ...],
        read: Callable[[], T],
        what: str,
        log: logging.Logger,
        on_change: Callable[[T, T], None],
    ) -> None:
        """Read the files. Raises the errors of ``read``: ValueError or OSError if the files cannot be used."""
        self._files = files
        self._read = read
        self._what = what
        self._log = log
        self._on_change = on_change
        self._used = self._seen = _look(files)
        self.now: T = read()

    async def watch(self) -> None:
        """Check the files every `LOOK_SECONDS`, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Check the files once. Read them again if they have changed since they were read, and have not changed since
        the last check, so that no half-written file is read.
        """
        found, before = _look(self._files), self._seen
        self._seen = found
        if found == self._used or found != before:
            return
        # remember the change before reading the files, so that unusable files are reported only once
        self._used = found
        try:
            new = self._read()
        except (ValueError, OSError) as error:
            self._log.error(
                "the new %s cannot be used: %s; those from before stay in use until the files change again",
                self._what,
                error,
            )
            return
        old, self.now = self.now, new
        self._on_change(old, new)


def _look(files: tuple[Path, ...]) -> _Look:
    """Return, for each file, values that change when the file does; None for a file that cannot be examined."""
    return tuple(map(_signature, files))


def _signature(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

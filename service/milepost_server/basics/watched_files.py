"""Keep what was read from files, and read it again when the files change, without ever being without it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LOOK_SECONDS: Final = 1.0
"""How often the files are looked at. They are read once two looks in a row have found the same change."""

_Look = tuple[tuple[int, int, int] | None, ...]


class WatchedFiles(Generic[T]):
    """What ``read`` made of the files when they could last be used; ``now`` is replaced as a whole.

    ``what`` names it in the log, and ``log`` is where it is said, once, why new files cannot be used. ``on_change`` is
    called with what was there before and what is there now. Files that are links are followed, so that a link which is
    replaced above them is a change, as where Kubernetes mounts a Secret.
    """

    def __init__(
        self,
        files: tuple[Path, ...],
        read: Callable[[], T],
        what: str,
        log: logging.Logger,
        on_change: Callable[[T, T], None],
    ) -> None:
        """Read the files. Raises what ``read`` raises: ValueError or OSError where they cannot be used."""
        self._files = files
        self._read = read
        self._what = what
        self._log = log
        self._on_change = on_change
        self._used = self._seen = _look(files)
        self.now: T = read()

    async def watch(self) -> None:
        """Look at the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Read the files again if they have changed, and then stay as they are from one look to the next."""
        found, before = _look(self._files), self._seen
        self._seen = found
        if found == self._used or found != before:
            return
        self._used = found  # also if they turn out to be wrong: that is said once
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
    """Return what changes when a file does; None for one that cannot be looked at."""
    return tuple(map(_signature, files))


def _signature(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

"""Files in memory, for tests and for trying things out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from milepost.state.errors import FileMissing
from milepost.state.store.files.contract import Created, FileInfo, StateFiles, checked_path


class MemoryFiles(StateFiles):
    """Files that end with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` tells the seconds by which files age."""
        self._clock = clock
        self._lock = threading.Lock()
        self._files: dict[str, tuple[bytes, float]] = {}

    def create(self, name: str, content: bytes) -> Created:
        with self._lock:
            if checked_path(name) in self._files:
                return Created.EXISTS
            self._files[name] = (bytes(content), self._clock())
            return Created.DONE

    def read(self, name: str, start: int, length: int) -> bytes:
        with self._lock:
            found = self._files.get(name)
        if found is None:
            raise FileMissing(f"no file {name}")
        return found[0][start : start + length]

    def list(self, directory: str) -> list[FileInfo]:
        now = self._clock()
        with self._lock:
            names = [name for name in self._files if name.rpartition("/")[0] == directory]
            return [FileInfo(name, len(self._files[name][0]), now - self._files[name][1]) for name in sorted(names)]

    def delete(self, name: str) -> None:
        with self._lock:
            self._files.pop(name, None)

"""State files in a local directory, also on a mounted file system that supports hard links; and state files in memory,
for tests.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from milepost.portable import sync
from milepost.state.errors import FileMissing, FilesError, WriteUnknown
from milepost.state.store.files.contract import Created, FileInfo, StateFiles, checked_path

_DRAFT = ".draft-"
_DRAFT_SECONDS = 3600.0
"""The seconds after which a temporary file counts as abandoned: a temporary file is needed only while one file is
written.
"""

_REFUSALS = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.ENOTSUP,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)
"""The errors with which a file system refuses a link. After any other error, for example a time-out of a file server,
the link may still appear.
"""


class LocalFiles(StateFiles):
    """Stores state files in a local directory. A file is written under a hidden name, made durable, and then linked to
    its own name, which fails if the name is taken. Calls have no time limit, because a thread that waits for a disk
    cannot be interrupted.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """Use the directory ``root``, which is made if it does not exist."""
        self._root = Path(root)
        with _translated("make", self._root):
            self._root.mkdir(parents=True, exist_ok=True)

    def create(self, name: str, content: bytes) -> Created:
        path = self._root / checked_path(name)
        draft = path.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
        with _translated("write", path):
            self._make_directories(path.parent)
            try:
                with draft.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    os.link(draft, path)
                except FileExistsError:
                    return Created.EXISTS
                except OSError as error:
                    if error.errno in _REFUSALS:
                        raise
                    raise WriteUnknown(f"it is not known whether {path} was linked: {error}") from error
            finally:
                # The outcome is decided by now, so an error here is ignored; `list` removes the temporary file later.
                with suppress(OSError):
                    draft.unlink()
        try:
            sync(path.parent)
        except OSError as error:
            raise WriteUnknown(f"{name} is there, but its directory could not be made durable: {error}") from error
        return Created.DONE

    def read(self, name: str, start: int, length: int) -> bytes:
        path = self._root / checked_path(name)
        with _translated("read", path), path.open("rb") as file:
            file.seek(start)
            return file.read(length)

    def list(self, directory: str) -> list[FileInfo]:
        now = time.time()
        found = []
        path = self._root / checked_path(directory)
        with _translated("list", path), suppress(FileNotFoundError):
            for entry in os.scandir(path):
                with suppress(FileNotFoundError):  # another process has deleted the file
                    status = entry.stat()
                    age = max(0.0, now - status.st_mtime)
                    if entry.name.startswith(_DRAFT):
                        if age > _DRAFT_SECONDS:
                            with suppress(OSError):  # a process without write access cannot remove it
                                os.unlink(entry.path)
                    elif entry.is_file():
                        found.append(FileInfo(f"{directory}/{entry.name}", status.st_size, age))
        return sorted(found, key=lambda info: info.name)

    def delete(self, name: str) -> None:
        path = self._root / checked_path(name)
        with _translated("delete", path):
            path.unlink(missing_ok=True)

    def _make_directories(self, path: Path) -> None:
        """Make the missing directories of ``path``, and make each name durable in its parent directory."""
        missing = []
        while path != self._root and not path.exists():
            missing.append(path)
            path = path.parent
        for directory in reversed(missing):
            directory.mkdir(exist_ok=True)
            sync(directory.parent)


@contextmanager
def _translated(act: str, path: Path) -> Iterator[None]:
    """Translate an OSError into an error below `FilesError`. The message contains ``act``, what was being done, and
    ``path``, because the error of a full disk names no file.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissing(f"no file {error.filename or path}") from error
    except OSError as error:
        hint = "; the file system has to have hard links" if error.errno in (errno.EPERM, errno.ENOTSUP) else ""
        raise FilesError(f"cannot {act} {error.filename or path}: {error.strerror}{hint}") from error


class MemoryFiles(StateFiles):
    """Stores state files in the memory of this process, for tests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns the present time in seconds; it determines the age of files."""
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

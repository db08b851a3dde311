"""The contract of a storage for files of state: each file is written once and completely, and is then only read or
deleted.

Two helpers work with every such storage: `create_once` creates a file that may exist already, and `FilesWithin` uses a
directory as a storage of its own.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto

from milepost.state.errors import FileMissing, FilesError, InvalidUse, WriteUnknown

_PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")


class Created(Enum):
    """The result of `StateFiles.create`: the file was created (DONE), or a file of that name existed before
    (EXISTS).
    """

    DONE = auto()
    EXISTS = auto()


@dataclass(frozen=True, slots=True)
class FileInfo:
    """An existing file: its name, its size in bytes, and its age in seconds."""

    name: str
    size: int
    age: float


class StateFiles(ABC):
    """A storage for files whose names are relative paths. Threads may share it.

    Each call ends within a time limit that was set when the storage was made. A call that raises `FilesError` has
    certainly changed nothing.
    """

    @abstractmethod
    def create(self, name: str, content: bytes) -> Created:
        """Create a file, with its directories, and make it durable. `Created.EXISTS` means that a file of this name
        existed before, and stays unchanged.

        Readers see the whole file or nothing of it. Raises `WriteUnknown` if the file may exist now, or later.
        """

    @abstractmethod
    def read(self, name: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start`` on; fewer only at the end of the file. Raises `FileMissing`."""

    @abstractmethod
    def list(self, directory: str) -> list[FileInfo]:
        """Return the files of a directory, none if there is no such directory."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it exists. After a failure the file may or may not exist; the call may be repeated."""


def checked_path(path: str) -> str:
    """Return ``path`` if every `StateFiles` can store a file under it. Raises `InvalidUse` otherwise."""
    if not _PATH.match(path):
        raise InvalidUse(f"no path of a state file: {path!r}")
    return path


def create_once(files: StateFiles, path: str, content: bytes) -> Created:
    """Create a file: `Created.DONE` means that it exists with this content, `Created.EXISTS` with other content.

    So the call is safe to repeat, from any process. If the outcome is unknown, or the file exists already, this reads
    the file back; if the file does not exist then, this tries once more to create it. Raises `WriteUnknown` if the
    outcome is still unknown after that.
    """
    unknown: WriteUnknown | None = None
    for _ in range(2):
        try:
            if files.create(path, content) is Created.DONE:
                return Created.DONE
        except WriteUnknown as error:
            unknown = error
        except FilesError as error:
            if unknown is None:
                raise
            raise WriteUnknown(f"{unknown}; then: {error}") from error
        try:
            return Created.DONE if files.read(path, 0, len(content) + 1) == content else Created.EXISTS
        except FileMissing:
            continue
        except FilesError as error:
            raise WriteUnknown(f"{unknown or path}; it could not be read back: {error}") from error
    raise WriteUnknown(f"{path} is not there yet, and may still come: {unknown}") from unknown


class FilesWithin(StateFiles):
    """A directory of another `StateFiles`, as a storage of its own. It can be pickled if ``files`` can, and raises the
    errors of ``files``.
    """

    def __init__(self, files: StateFiles, directory: str) -> None:
        """Use the directory ``directory`` of ``files``. Raises `InvalidUse` for a name that no directory can have."""
        self._files = files
        self._directory = checked_path(directory)

    def create(self, name: str, content: bytes) -> Created:
        return self._files.create(self._path(name), content)

    def read(self, name: str, start: int, length: int) -> bytes:
        return self._files.read(self._path(name), start, length)

    def list(self, directory: str) -> list[FileInfo]:
        begin = len(self._directory) + 1
        found = self._files.list(self._path(directory))
        return [FileInfo(info.name[begin:], info.size, info.age) for info in found]

    def delete(self, name: str) -> None:
        self._files.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{checked_path(name)}"

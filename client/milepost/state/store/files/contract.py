"""The contract of a place for files: each is written once, whole, and then only read or deleted.

Two things work in every place: to create a file that may be there already, and to use a directory as another place.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto

from milepost.state.errors import FileMissing, FilesError, InvalidUse, WriteUnknown

_PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")


class Created(Enum):
    """How a creation ended that did not fail."""

    DONE = auto()
    EXISTS = auto()


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file that is there: its name, its size in bytes, and how many seconds ago it was made."""

    name: str
    size: int
    age: float


class StateFiles(ABC):
    """A place for files whose names are relative paths. Threads may share it.

    Each call ends within a time that the place was made with. Raises `FilesError` where certainly nothing was done.
    """

    @abstractmethod
    def create(self, name: str, content: bytes) -> Created:
        """Create a file, with its directories, and make it durable; an existing file stays as it is.

        Others see the file whole or not at all. Raises `WriteUnknown` if it may be there now, or later.
        """

    @abstractmethod
    def read(self, name: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start`` on; fewer only where the file ends. Raises `FileMissing`."""

    @abstractmethod
    def list(self, directory: str) -> list[FileInfo]:
        """Return the files of a directory, none if there is no such directory."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it is there. A failure may leave it there or not; deleting may be tried again."""


def checked_path(path: str) -> str:
    """Return the path if it is one that every place can hold. Raises `InvalidUse`."""
    if not _PATH.match(path):
        raise InvalidUse(f"no path of a state file: {path!r}")
    return path


def create_once(files: StateFiles, path: str, content: bytes) -> Created:
    """Create a file: `Created.DONE` says that it is there with this content, `Created.EXISTS` with another one.

    So to create it again is safe, whoever wrote it before. Where the outcome is unknown, or the file is there already,
    it is read back; and if it is not there, created once more. Raises `WriteUnknown` if that tells nothing either.
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
    """A directory of another place. It can be pickled where that can, and raises what that does."""

    def __init__(self, files: StateFiles, directory: str) -> None:
        """Raises `InvalidUse` for a directory that no place can have."""
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

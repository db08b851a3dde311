"""The contract of a place for files: each is written once, whole, and then only read or deleted."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto

from milepost.state.errors import InvalidUse

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

"""A directory of another place for files, so that several may share the place."""

from __future__ import annotations

from milepost.state.store.files.contract import Created, FileInfo, StateFiles, checked_path


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

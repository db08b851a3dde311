"""Makes, checks, lists and cleans up the directory tree of the blobs. Nothing in this module awaits."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

from milepost_backends.contract import (
    BackendError,
    BlobInfo,
    BlobMissing,
    Misconfigured,
    StorageFull,
    StorageUnavailable,
    check_key,
    check_prefix,
)
from milepost_backends.disk.filesystem import (
    PRIVATE_DIRECTORY,
    keep_private,
    lies_on_shared,
    make_durable_directory,
    sync_directory,
)
from milepost_backends.local.files import FileSource, TemporaryFile, is_absent, remove_temporary, translate_errors

TEMPORARY = ".tmp"

# If the file system has no locks, a temporary file counts as abandoned once it was not written for this long. A put
# writes to its file with every megabyte. If a slower put is still running, it fails, and leaves no blob.
ABANDONED_AFTER_SECONDS = 3600.0

log = logging.getLogger(__name__)


class BlobTree:
    """The blobs under ``root``. A key is the path of its file below ``root``.

    Names with a leading dot are no keys: this class uses them for its own files.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._temporary_directory = self._root / TEMPORARY
        self._durable: set[Path] = set()
        self._making = threading.Lock()

    def prepare(self) -> None:
        """Make the directories, check that blobs can be written and read there, and remove abandoned temporary files.

        Raises `Misconfigured`, `StorageUnavailable`.
        """
        doing = f"work in {self._root}"
        with translate_errors(doing, set_up=True):
            make_durable_directory(self._temporary_directory)
            keep_private(self._root)
            self._remove_abandoned(time.time() - ABANDONED_AFTER_SECONDS)
        with suppress(StorageFull), translate_errors(doing, set_up=True):
            self._try_out()

    def maintain(self) -> None:
        """Remove temporary files whose writers have ended. Raises `StorageUnavailable`."""
        with translate_errors(f"remove abandoned temporary files in {self._temporary_directory}"):
            self._remove_abandoned(time.time() - ABANDONED_AFTER_SECONDS)

    def temporary(self, key: str) -> TemporaryFile:
        """Return a temporary file, not made yet, which `TemporaryFile.publish` makes the blob ``key``."""
        return TemporaryFile(self._temporary_directory / uuid.uuid4().hex, self._path(key), self._make_directory)

    def source(self, key: str, start: int, end: int | None, size: int | None) -> FileSource:
        """Return a reader, not open yet, of a range of the blob ``key``. For the arguments see `BlobStore.get`."""
        return FileSource(self._path(key), start, end, size, self._absence_of)

    def size(self, key: str) -> int:
        """Return the size of the blob ``key`` in bytes. Raises `BlobMissing`."""
        path = self._path(key)
        with translate_errors("look at a blob"):
            try:
                status = path.stat()
            except OSError as error:
                if is_absent(error):
                    raise self._absence_of(path) from error
                raise
        if not stat.S_ISREG(status.st_mode):
            raise BlobMissing(f"there is no blob at {path}")
        return status.st_size

    def delete(self, key: str) -> None:
        """Delete the file of the blob ``key``. Its directory stays, since another put may be about to use the
        directory.
        """
        with translate_errors("delete a blob"):
            try:
                self._path(key).unlink()
            except IsADirectoryError:
                return  # there is no such blob: the path is a directory of other blobs
            except OSError as error:
                if not is_absent(error):
                    raise

    def find(self, prefix: str, older_than: float) -> Generator[BlobInfo, None, None]:
        """Yield the blobs whose key begins with ``prefix`` and that are at least ``older_than`` seconds old.

        Files that disappear meanwhile are left out.
        """
        below = check_prefix(prefix).rpartition("/")[0]
        with translate_errors("list the blobs"):
            for path, status in _files(self._root / below):
                key = path.relative_to(self._root).as_posix()
                age = max(0.0, time.time() - status.st_mtime)
                if key.startswith(prefix) and age >= older_than:
                    yield BlobInfo(key, status.st_size, age)

    def _absence_of(self, path: Path) -> BackendError:
        """Return the error for a ``path`` that names no file.

        It is `BlobMissing`, or `StorageUnavailable` if all blobs are missing, for example because their disk is not
        mounted.
        """
        if self._temporary_directory.is_dir():
            return BlobMissing(f"there is no blob at {path}")
        return StorageUnavailable(f"the blobs of {self._root} are away, also {TEMPORARY}: is their disk mounted?")

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _make_directory(self, directory: Path) -> None:
        """Make ``directory`` and its parents, and sync all their names. Later calls in this process do nothing.

        The names of existing directories are synced as well, since the process that made one may have died before its
        sync.
        """
        with self._making:
            if directory in self._durable and directory.is_dir():
                return
            inner = directory.relative_to(self._root).parts
            for depth in range(1, len(inner) + 1):
                level = self._root.joinpath(*inner[:depth])
                level.mkdir(PRIVATE_DIRECTORY, exist_ok=True)
                sync_directory(level.parent)
            self._durable.add(directory)

    def _try_out(self) -> None:
        """Write, link, read and remove a small file, to check that blobs can be put, read and deleted."""
        first = self._temporary_directory / f".{uuid.uuid4().hex}"
        second = first.with_suffix(".linked")
        try:
            first.write_bytes(b"milepost")
            os.link(first, second)
            if second.read_bytes() != b"milepost":
                raise Misconfigured(f"a file written to {self._root} does not read back the same")
        finally:
            first.unlink(missing_ok=True)
            second.unlink(missing_ok=True)

    def _remove_abandoned(self, before: float) -> None:
        """Remove temporary files that no writer has locked.

        On a network file system, where locks of other machines may not be visible, files are removed that were last
        written earlier than ``before``. This also holds for the small files of `_try_out`, which are never locked.
        """
        by_age = lies_on_shared(self._temporary_directory)
        removed, left = 0, 0
        with os.scandir(self._temporary_directory) as entries:
            for entry in entries:
                try:
                    removed += _remove_if_abandoned(entry, by_age, before)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if not left:
                        log.warning("cannot remove the abandoned temporary file %s: %s", entry.path, error.strerror)
                    left += 1
        if removed:
            log.info("removed %d abandoned temporary files of blobs from %s", removed, self._temporary_directory)
        if left > 1:
            log.warning(
                "in %s there are %d more abandoned temporary files that cannot be removed",
                self._temporary_directory,
                left - 1,
            )


def _remove_if_abandoned(entry: os.DirEntry[str], by_age: bool, before: float) -> bool:
    """Remove the temporary file of a directory entry if it is abandoned, and return whether it was removed.

    A file is abandoned if no writer has locked it. With ``by_age``, or if the file system has no locks, it is abandoned
    if it was last written earlier than ``before``. Raises OSError.
    """
    path = Path(entry.path)
    gone = None if by_age or entry.name.startswith(".") else remove_temporary(path)
    if gone is None and entry.stat(follow_symlinks=False).st_mtime < before:
        path.unlink()
        gone = True
    return gone is True


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the regular files below ``directory``. Names with a leading dot are left out, and no link is followed."""
    try:
        entries = os.scandir(directory)
    except OSError as error:
        if is_absent(error):
            return
        raise
    with entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)

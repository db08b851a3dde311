"""Writes one blob to a temporary file, which gets the blob's name when it is complete, and reads one blob from its
file.

Nothing in this module awaits.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from milepost_backends.contract import (
    BackendError,
    BlobExists,
    BlobMissing,
    BlobSizeDiffers,
    BlobTruncated,
    Misconfigured,
    StorageFull,
    StorageRefused,
    StorageUnavailable,
)
from milepost_backends.disk.filesystem import PERMANENT_ERRORS, PRIVATE_FILE, sync_directory
from milepost_backends.disk.reserve import room_on

CHUNK = 1024 * 1024
READ_CHUNK = 256 * 1024
"""The bytes of a chunk that is read: few, since a slow reader has three chunks in memory."""
_BEGINNINGS = 5

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

log = logging.getLogger(__name__)


@contextmanager
def translate_errors(doing: str, *, set_up: bool = False, repeatable: bool = True) -> Iterator[None]:
    """Translate errors of the operating system into those of the contract. ``doing`` completes the message "cannot …".

    ``set_up`` is true while the blob store is being opened. Then missing permissions, and a directory that cannot be
    made, raise `Misconfigured`; afterwards they raise `StorageRefused`. Any other error of a call that is not
    ``repeatable`` raises `StorageRefused` as well.
    """
    try:
        yield
    except OSError as error:
        kind: type[BackendError] = StorageUnavailable
        if error.errno in _FULL:
            kind = StorageFull
        elif error.errno in PERMANENT_ERRORS or (set_up and error.errno == errno.ENOENT):
            kind = Misconfigured if set_up else StorageRefused
        elif not repeatable:
            kind = StorageRefused
        raise kind(f"cannot {doing}: {error.strerror}") from error


def is_absent(error: OSError) -> bool:
    """Return whether the error says that no file or directory has the path."""
    return error.errno in _ABSENT


class TemporaryFile:
    """A blob that is being written, under a temporary name on the same file system.

    `publish` gives the file its own name by link(2), since rename(2) would overwrite another file.
    """

    def __init__(self, temporary: Path, target: Path, make_directory: Callable[[Path], None]) -> None:
        self._temporary = temporary
        self._target = target
        self._make_directory = make_directory
        self._descriptor: int | None = None
        self._begun = False
        self._earlier = False
        self._synced = False
        self._published = False
        self._named = False

    def write(self, chunks: Sequence[bytes]) -> None:
        """Append ``chunks``. After this, a failed write cannot be repeated, since the earlier chunks are not kept."""
        self._earlier = True
        self._append(chunks)

    def _append(self, chunks: Sequence[bytes]) -> None:
        with translate_errors("write a blob", repeatable=not self._earlier):
            if self._descriptor is None:
                self._begin()
            assert self._descriptor is not None
            rest = memoryview(b"".join(chunks))
            self._leave_room(len(rest))
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def _leave_room(self, size: int) -> None:
        """Raise `StorageFull` if ``size`` more bytes would not leave as much room free as the pointers need for
        removals.

        The pointers may be in an SQLite file on the same disk.
        """
        assert self._descriptor is not None
        free, kept = room_on(self._descriptor)
        if free - size < kept:
            raise StorageFull(
                f"cannot write a blob: {free} bytes are left on the disk of {self._target}, of which {kept} are"
                " reserved for removals and locks"
            )

    def _begin(self) -> None:
        """Make the temporary file and lock it. The lock shows that the file has a living writer.

        A clean-up may remove the file before it is locked. In that case another file is made.
        """
        for _ in range(_BEGINNINGS):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._temporary, flags, PRIVATE_FILE)
            self._begun = True
            if _lock(self._descriptor) is not False and os.fstat(self._descriptor).st_nlink > 0:
                return
            self._close()
            self._temporary.unlink(missing_ok=True)
        raise OSError(errno.EAGAIN, f"{self._temporary} was removed each time it was made")

    def publish(self, chunks: Sequence[bytes]) -> None:
        """Append the last chunks, sync the file, give it the blob's name, and sync the name.

        After `StorageUnavailable` this may be called again with the same chunks. If the file could not be synced, it is
        written anew, since a second fsync can succeed although bytes are lost. If there were earlier chunks, which are
        not kept, this raises `StorageRefused`.
        """
        if not self._synced:
            self._remove_temporary()
            self._append(chunks)
            assert self._descriptor is not None
            with translate_errors("complete a blob", repeatable=not self._earlier):
                os.fsync(self._descriptor)
            self._synced = True
        with translate_errors("complete a blob"):
            if not self._named:
                self._make_directory(self._target.parent)
                self._link()
                sync_directory(self._target.parent)
                self._named = True
            self._temporary.unlink(missing_ok=True)
            self._begun = False
            self._close()

    def _remove_temporary(self) -> None:
        """Remove the temporary file of an earlier attempt of `publish`, if that attempt wrote all chunks of the blob.

        The next attempt then writes a new file.
        """
        if self._begun and not self._earlier:
            self._close()
            with translate_errors("write a blob"):
                self._temporary.unlink(missing_ok=True)

    def _link(self) -> None:
        """Give the temporary file the blob's name, which no other file may have.

        If an earlier attempt did so, the name is removed first and made again, since it may not have been synced.
        """
        if self._published:
            self._target.unlink(missing_ok=True)
            self._published = False
        try:
            os.link(self._temporary, self._target)
        except OSError as error:
            # over a network, a call that has made the link may be repeated, or report an error
            if not self._is_at_target():
                if isinstance(error, FileExistsError):
                    raise BlobExists(f"there is a blob at {self._target} already") from error
                raise
        self._published = True

    def _is_at_target(self) -> bool:
        try:
            return os.path.samefile(self._temporary, self._target)
        except OSError as error:
            if is_absent(error):
                return False
            raise

    def discard(self) -> None:
        """Remove the file under its temporary name, and under the blob's name if it has that already.

        A failure is only logged, since the caller raises an earlier error.
        """
        self._close()
        for name, there in ((self._target, self._published), (self._temporary, self._begun)):
            if there:
                try:
                    name.unlink(missing_ok=True)
                except OSError as error:
                    log.warning("cannot remove the unfinished blob %s, which stays for now: %s", name, error.strerror)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def remove_temporary(path: Path) -> bool | None:
    """Remove the temporary file at ``path``, unless its writer lives, which shows by a lock. Return whether it was
    removed.

    None means that the file system has no locks. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        locked = _lock(descriptor)
        if locked:  # the lock shows that its writer is dead, and keeps a new one from beginning meanwhile
            path.unlink(missing_ok=True)
        return locked
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Lock the file behind ``descriptor`` exclusively, and return True.

    Return False if another process has locked it; None if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            return None
        raise
    return True


class FileSource:
    """Reads a range of a blob from its file. Once this is open, a deletion of the blob does not disturb the reading.

    ``absence_of`` returns the error to raise if no file has the path.
    """

    def __init__(
        self, path: Path, start: int, end: int | None, size: int | None, absence_of: Callable[[Path], BackendError]
    ) -> None:
        self._path = path
        self._position = start
        self._end = end
        self._size = size
        self._absence_of = absence_of
        self._descriptor: int | None = None

    def open(self) -> bytes:
        """Open the blob's file, find the range in it, and return the first chunk. The chunk is empty if the range is
        empty.
        """
        self.close()
        with translate_errors("open a blob"):
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if is_absent(error):
                    raise self._absence_of(self._path) from error
                raise
            status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BlobMissing(f"there is no blob at {self._path}")
        BlobSizeDiffers.check(status.st_size, self._size)
        self._end = status.st_size if self._end is None else min(self._end, status.st_size)
        return self.read() if self.more else b""

    @property
    def more(self) -> bool:
        """Return whether a part of the range is still unread. Call `open` before."""
        return self._end is not None and self._position < self._end

    def read(self) -> bytes:
        """Return the next chunk of the range, never empty. Raises `BlobTruncated`."""
        assert self._descriptor is not None
        assert self._end is not None
        with translate_errors("read a blob"):
            chunk = os.pread(self._descriptor, min(READ_CHUNK, self._end - self._position), self._position)
        if not chunk:
            raise BlobTruncated(f"{self._path} ended at {self._position} while being read up to {self._end}")
        self._position += len(chunk)
        return chunk

    def close(self) -> None:
        """Close the blob's file. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

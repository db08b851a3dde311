"""Lock local files exclusively by flock(2): a lock is taken without waiting, and ends when its holder dies.

Nothing in this module awaits. The descriptors are closed on exec. A child that is forked and goes on without exec
shares the locks of its parent.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from milepost_backends.disk.filesystem import PRIVATE_FILE, FileIdentity
from milepost_backends.embedded.errors import os_error

_FOR_LOCKING = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Raise errors of the operating system as those of the contract; nothing else in this module translates them."""
    try:
        yield
    except OSError as error:
        raise os_error(error, f"cannot {doing}") from error


class FileLock:
    """A file lock excludes others from the file at ``path`` until it is released, also others in the same process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        self._identity = FileIdentity.of(descriptor)

    @staticmethod
    def prepare(path: Path) -> None:
        """Make the file if it is absent, and check that it can be opened for locking. Raises OSError."""
        os.close(os.open(path, _FOR_LOCKING, PRIVATE_FILE))

    @classmethod
    def try_take(cls, path: Path) -> FileLock | None:
        """Take the lock on the file at ``path``, made if it is absent; None while another holds it. Raises OSError."""
        while True:
            descriptor = os.open(path, _FOR_LOCKING, PRIVATE_FILE)
            if not _lock(descriptor, fcntl.LOCK_EX):
                os.close(descriptor)
                return None
            lock = cls(path, descriptor)
            if lock.is_held():
                return lock
            lock.release()  # the file was replaced between open and lock: this lock decides no election

    @classmethod
    def place(cls, path: Path, content: bytes) -> FileLock:
        """Replace the file at ``path`` by a new one with ``content``, which appears complete and locked.

        Only one process may do this for a name at a time. Raises OSError.
        """
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, _FOR_LOCKING | os.O_TRUNC, PRIVATE_FILE)
        try:
            _lock(descriptor, fcntl.LOCK_EX)  # no other process knows of this file yet
            os.write(descriptor, content)
            draft.rename(path)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def is_held(self) -> bool:
        """Return whether the lock is held, and the path still names the locked file. Cheap: it takes one stat."""
        try:
            return self._descriptor is not None and FileIdentity.of(self._path) == self._identity
        except OSError:
            return False  # without a stat it is not certain

    def release(self) -> None:
        """Release the lock, so that another holder can take it. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def read_locked(path: Path) -> bytes | None:
    """Return the content of the file at ``path`` while someone holds its lock, else None. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return None if _lock(descriptor, fcntl.LOCK_SH) else os.read(descriptor, 65536)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

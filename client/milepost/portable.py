"""What POSIX and Windows do differently with files of this machine."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def try_lock(descriptor: int) -> bool:
    """Lock a file that is open for writing, until it is closed; return False if another process has it locked.

    Raises OSError where the file system has no locks.
    """
    if sys.platform == "win32":
        with suppress(PermissionError):
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            return True
    else:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def sync(path: Path) -> None:
    """Make what a file contains durable, or the names in a directory. Raises OSError."""
    if sys.platform == "win32" and path.is_dir():
        return  # Windows opens no directory, and NTFS keeps a journal of the names
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def others_may_read(mode: int) -> bool:
    """Return whether users other than a file's owner may read it, by its ``st_mode``. On Windows that does not say it,
    so the answer there is False.
    """
    return sys.platform != "win32" and bool(mode & 0o077)

"""Operations on local files that differ between POSIX and Windows."""

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
    """Lock a file that is open for writing, until it is closed; return False if another process holds the lock.

    Raises OSError if the file system has no locks.
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
    """Make the content of a file, or the names in a directory, durable. Raises OSError."""
    if sys.platform == "win32" and path.is_dir():
        return  # Windows cannot open a directory, and NTFS journals the names itself
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def others_may_read(mode: int) -> bool:
    """Return whether ``mode`` (``st_mode``) lets users other than a file's owner read it. On Windows ``st_mode`` does
    not show this, so the answer is False.
    """
    return sys.platform != "win32" and bool(mode & 0o077)

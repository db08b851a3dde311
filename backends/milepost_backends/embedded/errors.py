"""Translate errors of SQLite and of the operating system into those of the contract.

What an error means depends on whether COMMIT had been issued. Before COMMIT, a rollback undoes everything: SQLite never
recovers frames of the write-ahead log that have no commit mark.

During COMMIT the meaning depends on the order in which SQLite works (``sqlite3WalFrames``). SQLite writes the frames,
the one with the commit mark last; then it syncs the log; then it publishes the frames in the shared index. On any error
it rolls back in memory, but frames that are already in the log stay there:

* ``SQLITE_FULL`` says that the write of a frame was cut short. So the commit mark is not whole, and recovery, which
  requires its checksum, cannot take it for a commit: the group was not written and never will be. (On a device without
  powersafe overwrite there would be padding after the mark; the connection is opened with ``psow=1``, which avoids it.)
* ``SQLITE_IOERR_WRITE`` says that the system refused to write a frame, but not why, since SQLite calls a disk full for
  ``ENOSPC`` alone. If a trial shows that the system gives no more room (``EDQUOT``: a quota is used up), the write was
  refused for that reason, and the error means the same as ``SQLITE_FULL``.
* Any other error may come after the mark was written, from the sync or from the index. This process sees the group
  rolled back, but recovery after a crash would find the group whole. So the outcome of the group is unknown until a
  later commit overwrites its frames. A take-over makes such a commit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from milepost_backends.contract import (
    BackendError,
    CommitRefused,
    JournalDamaged,
    Misconfigured,
    Refusal,
    StorageFull,
    StorageUnavailable,
    Unknown,
)
from milepost_backends.disk.filesystem import PERMANENT_ERRORS

_REFUSALS = {
    sqlite3.SQLITE_FULL: Refusal.FULL,
    sqlite3.SQLITE_TOOBIG: Refusal.TOO_LARGE,
    sqlite3.SQLITE_READONLY: Refusal.DENIED,
    sqlite3.SQLITE_PERM: Refusal.DENIED,
    sqlite3.SQLITE_AUTH: Refusal.DENIED,
}

_ERRORS: dict[int, type[BackendError]] = {
    sqlite3.SQLITE_FULL: StorageFull,
    sqlite3.SQLITE_CORRUPT: JournalDamaged,
    sqlite3.SQLITE_NOTADB: JournalDamaged,
    sqlite3.SQLITE_READONLY: Misconfigured,
    sqlite3.SQLITE_PERM: Misconfigured,
    sqlite3.SQLITE_AUTH: Misconfigured,
}


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether the error says that this connection waited in vain for a lock that another connection holds."""
    return _primary(error) == sqlite3.SQLITE_BUSY


def commit_end(error: sqlite3.Error, *, committing: bool, lacks_room: Callable[[], bool]) -> CommitRefused | Unknown:
    """Return the outcome of a group whose transaction failed: while COMMIT ran if ``committing``, otherwise before it.

    ``lacks_room`` checks whether the system refuses as much room as the group takes. If the result is `CommitRefused`,
    the caller must end the transaction, by ROLLBACK or by closing the connection.
    """
    primary, detail = _primary(error), _detail(error)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_WRITE and lacks_room():
        return CommitRefused(Refusal.FULL, f"{detail}: the disk has no room for the group")
    if committing and primary != sqlite3.SQLITE_FULL:
        return Unknown(detail)
    return CommitRefused(_REFUSALS.get(primary, Refusal.FAILED), detail)


def backend_error(error: sqlite3.Error, doing: str) -> BackendError:
    """Return the contract's error for an SQLite error in any operation but a commit. Raise it ``from error``.

    ``doing`` says what failed, such as "cannot list the journals".
    """
    kind = _ERRORS.get(_primary(error), StorageUnavailable)
    return kind(f"{doing}: {_detail(error)}")


def os_error(error: OSError, doing: str) -> BackendError:
    """Return the contract's error for a file that cannot be used. Raise it ``from error``.

    ``doing`` says what failed, such as "cannot open pointers.db".
    """
    kind = Misconfigured if error.errno in PERMANENT_ERRORS else StorageUnavailable
    return kind(f"{doing}: {error.strerror}")


def _primary(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code of the error. Errors of Python's own ``sqlite3`` module have none."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


def _detail(error: sqlite3.Error) -> str:
    return f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"

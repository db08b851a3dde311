"""The one place where SQLite's errors become the contract's words.

What an error means depends on whether COMMIT had been issued. Before it, nothing can land once the transaction was
rolled back: frames in the write-ahead log without a commit mark are never recovered.

In COMMIT the order of SQLite's acts (``sqlite3WalFrames``) decides: write the frames, the one with the commit mark
last; sync the log; publish them in the shared index. On any error SQLite rolls back in memory, but what the log holds
stays:

* ``SQLITE_FULL`` says that a write of a frame was cut short, so the commit mark is not whole and recovery, which
  demands its checksum, cannot take it for a commit. It did not land and never will. (A device without powersafe
  overwrite would get padding after the mark; the connection is opened with ``psow=1`` so that there is none.)
* ``SQLITE_IOERR_WRITE`` says that the system refused to write a frame, and not why; for SQLite calls a disk full for
  ``ENOSPC`` alone. If a trial shows that the system gives no more room (``EDQUOT``: a quota is used up), the write was
  refused for it, and means the same.
* Any other error may come after the mark was written, from the sync or from the index: this process sees the group
  rolled back, yet after a crash recovery would find it whole. It is unknown until a later commit overwrites those
  frames, which a take-over does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from backends.contract import (
    BackendError,
    CommitRefused,
    JournalDamaged,
    Misconfigured,
    Refusal,
    StorageFull,
    StorageUnavailable,
    Unknown,
)

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
    """Whether another connection held a lock that this one waited for in vain."""
    return _primary(error) == sqlite3.SQLITE_BUSY


def commit_end(error: sqlite3.Error, *, committing: bool, lacks_room: Callable[[], bool]) -> CommitRefused | Unknown:
    """How a group ended whose transaction broke, in COMMIT itself or before it.

    ``lacks_room`` tries whether the system would give as much room as the group takes. A refusal presumes that the
    caller ends the transaction, by ROLLBACK or by closing the connection.
    """
    primary, detail = _primary(error), _detail(error)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_WRITE and lacks_room():
        return CommitRefused(Refusal.FULL, f"{detail}: there is no room for it")
    if committing and primary != sqlite3.SQLITE_FULL:
        return Unknown(detail)
    return CommitRefused(_REFUSALS.get(primary, Refusal.FAILED), detail)


def backend_error(error: sqlite3.Error, doing: str) -> BackendError:
    """The contract's error for anything but a commit; to be raised ``from error``."""
    kind = _ERRORS.get(_primary(error), StorageUnavailable)
    return kind(f"{doing}: {_detail(error)}")


def _primary(error: sqlite3.Error) -> int:
    """The primary result code; errors that the Python module finds by itself carry none."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


def _detail(error: sqlite3.Error) -> str:
    return f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"

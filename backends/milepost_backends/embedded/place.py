"""Opens the SQLite database of the pointers in a directory, and checks whether the file found there may be used.

Two files belong to the database: its witness, a second copy of the last head, and its reserve of disk space.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, TypeVar

from milepost_backends.contract import (
    Head,
    JournalDamaged,
    Misconfigured,
    StorageFull,
    StorageUnavailable,
    loss_of,
)
from milepost_backends.disk.reserve import Reserve
from milepost_backends.embedded.database import connect, log_files, prepare_directory
from milepost_backends.embedded.errors import backend_error, os_error
from milepost_backends.embedded.salvage import salvage
from milepost_backends.embedded.witness import FileWitness

WITNESS_SUFFIX: Final = ".witness"
RESERVE_SUFFIX: Final = ".reserve"
_OF_A_LEADER: Final = "leader.json"
_BLOBS: Final = "blobs"
_WHAT_TO_DO: Final = (
    "Restore all files of the directory, or restore a backup and start with --epochs-above;"
    " if the loss is accepted, what can be read of the file is taken over"
)

T = TypeVar("T")

log = logging.getLogger("milepost.embedded")


class Displaced(StorageUnavailable):
    """The database file was moved, deleted or replaced while it was in use, so writes to the open file would be
    lost.
    """


_Seen = tuple[int, int, int]
"""Device, inode and size of a file: what identifies it, and how long it was."""


class SqlitePlace:
    """The SQLite database at ``path``, with its write-ahead log, its witness and its reserve. One thread uses this
    object.
    """

    def __init__(self, path: Path, busy_timeout: float, accept_loss: Collection[str]) -> None:
        self.path = path
        self.accept_loss = accept_loss
        self.witness = FileWitness(path.with_suffix(WITNESS_SUFFIX))
        self.reserve = Reserve(path.with_suffix(RESERVE_SUFFIX))
        self._busy_timeout = busy_timeout
        self._connection: sqlite3.Connection | None = None
        self._at, self._log_at = os.fspath(path), os.fspath(log_files(path)[0])
        self._file: _Seen | None = None
        self._unproven = False
        self._log_noted = False
        self._log: _Seen | None = None
        self._witness_fails = False

    @property
    def connection(self) -> sqlite3.Connection | None:
        """Return the open connection; None if the database is closed."""
        return self._connection

    def open(self) -> None:
        """Open the database. If there is none, make it, but only if no other file shows that there was one.

        Raises the errors of `PointerStore.open`.
        """
        if self._connection is not None:
            return
        prepare_directory(self.path)
        self.reserve.keep()
        try:
            if loss_of(self._evidence()) in self.accept_loss:
                self._salvage()
            self._refuse_to_found_anew()
        except OSError as error:
            raise os_error(error, f"cannot open {self.path}") from error
        self._attach(create=True)

    def close(self) -> None:
        """Close the connection to the database. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def check(self) -> None:
        """Check that the path still names the opened file, and that the file has not become shorter.

        SQLite never shortens it here, so another program must have done so. Raises `Displaced`, or `StorageUnavailable`
        if the file cannot be examined.
        """
        if not self._is_displaced(now := _seen_at(self._at)):
            self._file = now
            return
        self.close()
        raise Displaced(f"{self.path} was moved, deleted or replaced while in use, or cut short")

    def ready(self) -> sqlite3.Connection:
        """Return the connection, after a check that its file is still at the path: a commit to a deleted file would be
        lost.

        If the write-ahead log was deleted, replaced or cut short, a new connection is made. SQLite then recovers what
        is left of the log, and the next comparison of the stored head with the expected one detects a loss. Raises the
        errors of `check`.
        """
        self.check()
        if self._connection is not None and self._log_noted and not self._log_is_whole():
            self.close()
        if self._connection is None:
            self._log_noted = False
            self._connection = self._connect(create=False)
        return self._connection

    @property
    def unproven(self) -> bool:
        """Return whether the content of the database is not verified yet.

        This is so after another file was put at its path, until the next take-over.
        """
        return self._unproven

    def follow(self) -> None:
        """If another file is at the path now, use that file. Its content is not verified until a take-over.

        The leader, which is another process, may have put the file there; so may another program. Nothing is written to
        the file before the take-over.
        """
        now = _seen_at(self._at)
        if now is not None and now[2] > 0 and self._file is not None and now[:2] != self._file[:2]:
            self._open_other()
            self._unproven = True

    def adopt(self, *, remembered: bool) -> None:
        """Prepare a take-over: if another file is at the path now, or the file was cut short, use the present file.

        If there is no file, none is made. ``remembered`` says that the caller leads, and will write all records from
        its memory. In that case the other or shortened file is put aside, and a new one is made.
        """
        now = _seen_at(self._at)
        displaced = self._file is not None and self._is_displaced(now)
        if remembered and (displaced or self._unproven):
            self.renew()
        elif displaced and now is not None and now[2] > 0:
            self._open_other()
        self._unproven = False

    def renew(self) -> None:
        """Put the file at the path aside, and replace it by a new database with the readable content of the old one.

        Only a leader may call this, since it must then write the unreadable records from its memory. Raises the errors
        of `PointerStore.take_over`.
        """
        self.close()
        self.with_room(self._salvage)
        self._attach(create=False)

    def testify(self, act: Callable[[Head], None], head: Head) -> None:
        """Note the committed ``head`` in the witness by ``act``, a method of `FileWitness`. A failure is logged once,
        and raises nothing.
        """
        try:
            act(head)
        except OSError as error:
            if not self._witness_fails:
                log.error(
                    "cannot write the witness %s: %s. Commits go on, but a loss of revisions from the database may go"
                    " unnoticed from now on",
                    self.witness.path,
                    error.strerror,
                )
            self._witness_fails = True
        else:
            if self._witness_fails:
                log.info("the witness %s can be written again", self.witness.path)
            self._witness_fails = False

    def note_log(self) -> None:
        """Remember identity and size of the write-ahead log after a transaction of this process.

        With them, `ready` notices that another program deleted, replaced or shortened the log.
        """
        self._log, self._log_noted = self._see_log(), True

    def damaged(self, what: str) -> JournalDamaged:
        """Return the error for damage in the database file itself, which ``what`` describes.

        The owner of the deployment may accept the loss, see `JournalDamaged`.
        """
        return JournalDamaged(f"{self.path} is damaged: {what}. {_WHAT_TO_DO}", self._evidence())

    def with_room(self, act: Callable[[], T]) -> T:
        """Return the result of ``act``. If ``act`` fails because the disk is full, delete the reserve and call it
        again.
        """
        try:
            return act()
        except StorageFull:
            if not self.reserve.give_up():
                raise
        except StorageUnavailable:
            if not self.reserve.is_short() or not self.reserve.give_up():
                raise
        return act()

    def _open_other(self) -> None:
        self.close()
        prepare_directory(self.path)
        self._attach(create=False)

    def _attach(self, *, create: bool) -> None:
        """Connect to the database at the path; with ``create``, make it if there is none.

        Raises `Displaced` if another file was put there meanwhile, and the errors of `connect`.
        """
        before = _seen_at(self._at)
        self._connection = self.with_room(lambda: self._connect(create=create))
        self._file, self._log_noted, self._unproven = before or _seen_at(self._at), False, False
        self.check()

    def _is_displaced(self, now: _Seen | None) -> bool:
        return now is None or self._file is None or (now != self._file and not _is_later(self._file, now))

    def _salvage(self) -> None:
        doing = f"cannot put a new database in the place of {self.path}"
        try:
            salvage(self.path, self._busy_timeout)
        except sqlite3.Error as error:
            raise backend_error(error, doing) from error
        except OSError as error:
            raise StorageUnavailable(f"{doing}: {error.strerror}") from error

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        """Connect to the database at the path; with ``create``, make it if there is none. Raises the errors of
        `connect`.

        There is one exception: if a witness shows that Milepost's database was here, a file of another format raises
        `JournalDamaged`.
        """
        try:
            return connect(self.path, self._busy_timeout, create=create)
        except JournalDamaged as error:
            raise self.damaged(str(error)) from error
        except Misconfigured as error:
            # a `Misconfigured` with a cause is about the path or its rights, not about the content of the file
            system_refused = error.__cause__ is not None
            if not system_refused and self.witness.path.exists() and self.path.exists():
                raise self.damaged(str(error)) from error
            raise

    def _refuse_to_found_anew(self) -> None:
        """Raise `JournalDamaged` if there is no database, but another file, such as the witness, shows that there was
        one.
        """
        if self._is_filled() or not (traces := self._traces()):
            return
        if self._is_filled():
            return  # no damage: another replica has just made the database
        state = "empty" if self.path.exists() else "gone"
        error = JournalDamaged(
            f"{self.path} is {state}, but {' and '.join(traces)} beside it show that a journal was founded here,"
            f" and it is not founded anew. {_WHAT_TO_DO}",
            self._evidence(),
        )
        if error.loss not in self.accept_loss:
            raise error

    def _is_filled(self) -> bool:
        """Return whether the database file exists and is not empty. Raises `StorageUnavailable`."""
        seen = _seen_at(self._at)
        return seen is not None and seen[2] > 0

    def _traces(self) -> list[str]:
        directory = self.path.parent
        found = [path.name for path in (self.witness.path, directory / _OF_A_LEADER, log_files(self.path)[0])]
        traces = [name for name in found if (directory / name).exists()]
        try:
            below = [each.name for each in (directory / _BLOBS).iterdir() if not each.name.startswith(".")]
        except OSError:
            below = []
        return traces + [f"{_BLOBS}/{name}" for name in below[:1]]

    def _evidence(self) -> str:
        """Return the evidence of damage to the database file, see `JournalDamaged`: a hash of the witness.

        It stays the same until a take-over succeeds, since that writes the witness.
        """
        try:
            content = self.witness.path.read_bytes()
        except FileNotFoundError:
            content = b""
        return f"database file {hashlib.blake2b(content, digest_size=8).hexdigest()}"

    def _log_is_whole(self) -> bool:
        now = self._see_log()
        return now is None if self._log is None else now is not None and _is_later(self._log, now)

    def _see_log(self) -> _Seen | None:
        """Return identity and size of the write-ahead log; None if it cannot be seen."""
        try:
            status = os.stat(self._log_at)
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size


def _is_later(before: _Seen, now: _Seen) -> bool:
    """Return whether ``now`` is the file that was seen ``before``, and has grown since or not changed."""
    return now == before or (now[:2] == before[:2] and now[2] >= before[2])


def _seen_at(path: str) -> _Seen | None:
    """Return identity and size of the file at ``path``, or None if there is none. Raises `StorageUnavailable`."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageUnavailable(f"cannot look at {path}: {error.strerror}") from error
    return status.st_dev, status.st_ino, status.st_size

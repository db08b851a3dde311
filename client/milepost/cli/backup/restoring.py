"""Restores the planned stores: handles with their states, and the files of jobs, one snapshot after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from milepost.cli.acting import led
from milepost.cli.backup.archive import Backup
from milepost.cli.backup.format import FileRecord, SnapshotRecord
from milepost.cli.backup.plan import CannotRestore, Planned
from milepost.cli.progress import Bar
from milepost.errors import (
    AlreadyExists,
    EpochHeld,
    InvalidName,
    InvalidRequest,
    MilepostError,
    NotSupported,
    TooLarge,
)
from milepost.files import JobFiles
from milepost.store import StateHandleStore

_LARGE: Final = 8 * 1024 * 1024
_LEAST_SECONDS: Final = 30.0
_SLOWEST_BYTES_PER_SECOND: Final = 1024 * 1024
_COMMIT = re.compile(r"(?P<directory>(?:.*/)?)commits/(?P<batch>0|[1-9]\d{0,17})")
_OFFSET = re.compile(r"(?:.*/)?offsets/\d+")


@dataclass
class Restored:
    """How many stores, handles, files and histories were restored, and how many items were skipped, since they existed
    already.
    """

    stores: int = 0
    handles: int = 0
    files: int = 0
    histories: int = 0
    skipped: int = 0


class Restorer:
    """Restores one store after the other, which ``opened`` opens; the locks that it takes end with their sessions.

    If a driver holds the epoch of a store, the restorer waits up to ``wait`` seconds for the epoch. ``notes`` says
    which histories the service has left as they are, and ``refused`` which it has not taken.
    """

    def __init__(self, backup: Backup, opened: Callable[[str], StateHandleStore], bar: Bar, wait: float) -> None:
        self._backup = backup
        self._opened = opened
        self._bar = bar
        self._wait = wait
        self.done = Restored()
        self.notes: list[str] = []
        self.refused: list[str] = []

    def restore(self, planned: Planned) -> None:
        """Restore a store as planned. Raises `EpochHeld` if a driver holds the store's epoch, `CannotRestore`, and the
        errors of the writes.
        """
        self._bar.name(planned.target)
        store = self._opened(planned.target)
        self.done.stores += 1
        self.done.skipped += planned.skipped
        if planned.history and not (planned.has_history and planned.done):
            self._restore_history(store, planned)
        if planned.done:
            return
        if not planned.needs_epoch:
            self._restore_handles(store, planned)
            return
        with led(store, self._wait):
            epoch = store.epoch or 0
            if epoch <= planned.record.epoch:
                raise CannotRestore(
                    f"store {planned.target} was granted epoch {epoch}, not above {planned.record.epoch}: nothing of "
                    "it was restored; start every replica with the same --epochs-above"
                )
            self._restore_handles(store, planned)
            current = dict(planned.there)
            for snapshot in planned.snapshots:
                self._restore_snapshot(store.files, planned, snapshot, current)
                if snapshot.savepoint is not None:
                    self._make_savepoint(store, snapshot, snapshot.savepoint)

    def _restore_history(self, store: StateHandleStore, planned: Planned) -> None:
        """Restore the history, before the store has an epoch here: its grant is the entry after those of the backup. A
        history only reports, so the restore goes on without it.
        """
        try:
            if store.restore_history(planned.history, self._backup.made, planned.record.name):
                self.done.histories += 1
        except (AlreadyExists, EpochHeld) as error:
            if not planned.has_history:
                self.notes.append(f"the history of {planned.target} is left as it is there: {error}")
        except NotSupported as error:
            self.notes.append(f"the history of {planned.target} is not restored: {error}")
        except (InvalidRequest, InvalidName, TooLarge) as error:
            self.refused.append(f"the history of {planned.target} is not restored: {error}")

    def _restore_handles(self, store: StateHandleStore, planned: Planned) -> None:
        for handle in planned.handles:
            assert handle.member is not None
            added = store.add_and_lock(handle.name, self._backup.slice(handle.member), handle.labels)
            if added.sha256 != handle.sha256:
                raise MilepostError(f"handle {planned.target}/{handle.name} has another digest than in the backup")
            self._bar.advance(handle.size)
            self.done.handles += 1

    def _restore_snapshot(
        self, files: JobFiles, planned: Planned, snapshot: SnapshotRecord, current: dict[str, str]
    ) -> None:
        """Make the job's files those of ``snapshot``, and let the service take a snapshot of them.

        ``current`` has the SHA-256 of each file that the job has now, by path, and is kept up to date. The service
        takes a snapshot whenever a file in Spark's directory ``commits`` is written, and Spark considers a batch done
        once this file exists. So these files are written last, and the one of this snapshot's batch at the very end:
        the snapshot that the service takes then has all files, and the number of this batch.
        """
        shown = planned.shown(snapshot)
        for path, file in shown.items():
            if file.directory:
                files.make_directory(path)
        wanted = [file for path, file in shown.items() if not file.directory]
        missing = [file for file in wanted if current.get(file.path) != planned.sha256(file)]
        for file in sorted(missing, key=lambda file: _OFFSET.fullmatch(file.path) is not None):
            if _COMMIT.fullmatch(file.path) is None:
                self._put(files, planned, file, current)
        for path in [path for path in current if path not in shown]:
            files.delete(path)
            del current[path]
        for file in _in_order(missing):
            self._put(files, planned, file, current)
        commit = shown.get(snapshot.commit)
        if commit is None:
            raise CannotRestore(f"the snapshot at {snapshot.revision} of {planned.record.name} lacks {snapshot.commit}")
        self._put(files, planned, commit, current)

    def _put(self, files: JobFiles, planned: Planned, file: FileRecord, current: dict[str, str]) -> None:
        assert file.member is not None
        content = planned.changed.get(file.member)
        # The time limit of a large file grows with its size.
        timeout = None if file.size < _LARGE else _LEAST_SECONDS + file.size / _SLOWEST_BYTES_PER_SECOND
        files.write(file.path, self._backup.slice(file.member) if content is None else content, timeout=timeout)
        if current.get(file.path) != planned.sha256(file):
            self._bar.advance(file.size)
            self.done.files += 1
        current[file.path] = planned.sha256(file)

    def _make_savepoint(self, store: StateHandleStore, snapshot: SnapshotRecord, name: str) -> None:
        made = [
            each
            for each in store.files.snapshots().snapshots
            if (each.directory, each.batch) == (snapshot.directory, snapshot.batch)
        ]
        if not made:
            raise MilepostError(
                f"the commit {snapshot.commit} of {store.name} has made no snapshot for the savepoint {name!r}"
            )
        store.files.make_savepoint(name, made[-1].revision)


def _in_order(files: Iterable[FileRecord]) -> Iterator[FileRecord]:
    """Yield the commit files of each query from the newest batch to the oldest, and then the newest once more.

    The service takes a snapshot at each of these writes. In this order every such snapshot has the newest commit, whose
    state is complete; and the last snapshot of the query has the newest batch's number.
    """
    queries: dict[str, list[tuple[int, FileRecord]]] = {}
    for file in files:
        found = _COMMIT.fullmatch(file.path)
        if found is not None:
            queries.setdefault(found["directory"], []).append((int(found["batch"]), file))
    for commits in queries.values():
        commits.sort(key=lambda each: each[0], reverse=True)
        yield from (file for _, file in commits)
        if len(commits) > 1:
            yield commits[0][1]

"""Saves stores through the service: handles with their states, the files of jobs, and their histories.

The files are those of the last snapshot and of all savepoints.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice

from milepost.cli.backup.archive import ArchiveWriter
from milepost.cli.backup.format import DAMAGED, SAVEPOINT_PREFIX, FileRecord, HandleRecord, SnapshotRecord, StoreRecord
from milepost.cli.backup.histories import history_in
from milepost.cli.progress import Bar
from milepost.client import Client
from milepost.errors import Damaged, NotExist, Unavailable, VersionMismatch
from milepost.files import JobFiles, walk
from milepost.job_types import HistoryEntry
from milepost.store import StateHandleStore
from milepost.types import CorruptHandle, Handle, JobFile, KeptSnapshots, StoreSummary
from milepost.wire import Code

_TRIES = 20
"""The most attempts to read a state. An attempt fails if the state is replaced while it is read."""


class Saver:
    """Saves one store after the other.

    ``changed`` opens a store in which savepoints are made; it is called only if one is needed. ``without_snapshot``
    lists the jobs whose files are not saved, because no batch of theirs was committed yet.
    """

    def __init__(
        self, client: Client, archive: ArchiveWriter, bar: Bar, changed: Callable[[str], StateHandleStore]
    ) -> None:
        self._client = client
        self._archive = archive
        self._bar = bar
        self._changed = changed
        self.without_snapshot: list[str] = []

    def save(self, summary: StoreSummary) -> StoreRecord:
        """Write a store to the backup; return the record of what was saved, and of what could not be.

        The epoch is read again at the end: a driver that was granted a newer epoch meanwhile may have written some of
        the saved data.
        """
        found = StoreRecord(summary.store)
        self._bar.name(summary.store)
        self._archive.begin_store()
        try:
            store = self._client.store(summary.store)
            found.epoch = store.current_epoch().epoch
            self._save_handles(store, found)
            self._save_files(store, found)
            self._save_history(found)
            found.epoch = store.current_epoch().epoch
        except Damaged as error:
            found.damage = str(error)
        self._archive.end_store(found)
        return found

    def _save_handles(self, store: StateHandleStore, found: StoreRecord) -> None:
        for handle in store.look_through():
            if isinstance(handle, CorruptHandle):
                found.handles.append(HandleRecord(handle.name, damage=f"its record is damaged: {handle.reason}"))
            elif not handle.removing:
                with suppress(NotExist):  # a client has removed the handle since it was listed
                    found.handles.append(self._save_handle(store, handle))

    def _save_history(self, found: StoreRecord) -> None:
        try:
            found.history = history_in(self._client, found.name)
        except Damaged as error:
            found.history = [HistoryEntry(DAMAGED, reason=str(error))]

    def _save_handle(self, store: StateHandleStore, handle: Handle) -> HandleRecord:
        for _ in range(_TRIES):
            saved = None
            try:
                with suppress(VersionMismatch), store.open(handle.name, handle.version) as chunks:
                    saved = self._saved(handle, *self._archive.add_data(handle.size, self._bar.counted(chunks)))
                if saved is not None and saved.damage is None:
                    return saved
                current = store.get(handle.name)
                if saved is not None and current.version == handle.version:
                    return saved
                handle = current
            except Damaged as error:
                return _described(handle, damage=str(error))
        raise Unavailable(Code.STORAGE_UNAVAILABLE, f"{handle.name} of {store.name} is replaced faster than it is read")

    def _saved(self, handle: Handle, member: str, sha256: str, failure: str | None) -> HandleRecord:
        if failure is None and sha256 != handle.sha256:
            failure = "its bytes do not have the digest of its record"
        return _described(handle, damage=failure) if failure else _described(handle, member=member)

    def _save_files(self, store: StateHandleStore, found: StoreRecord) -> None:
        kept = store.files.snapshots()
        if not (kept.snapshots or kept.savepoints):
            with suppress(NotExist):
                self.without_snapshot += [store.name for _ in islice(store.files.list(""), 1)]
            return
        known: dict[tuple[str, str], int] = {}
        with self._held(store.name, kept) as snapshots:
            for directory, snapshot in snapshots:
                self._save_snapshot(found, f".snapshot/{directory}", snapshot, known)

    @contextmanager
    def _held(self, job: str, kept: KeptSnapshots) -> Iterator[list[tuple[str, SnapshotRecord]]]:
        """Yield the snapshots to save, oldest first, each with the name of its directory below ``.snapshot``.

        During the block, a temporary savepoint keeps the last snapshot, so that the service does not delete its files.
        """
        snapshots = [
            (
                savepoint.name,
                SnapshotRecord(
                    savepoint.snapshot.revision, savepoint.snapshot.directory, savepoint.snapshot.batch, savepoint.name
                ),
            )
            for savepoint in kept.savepoints
            if not savepoint.name.startswith(SAVEPOINT_PREFIX)
        ]
        if not kept.snapshots:
            yield sorted(snapshots, key=lambda each: each[1].revision)
            return
        name = f"{SAVEPOINT_PREFIX}{uuid.uuid4().hex[:8]}"
        files = self._changed(job).files
        files.make_savepoint(name)
        try:
            (snapshot,) = (savepoint.snapshot for savepoint in files.snapshots().savepoints if savepoint.name == name)
            snapshots.append((name, SnapshotRecord(snapshot.revision, snapshot.directory, snapshot.batch)))
            yield sorted(snapshots, key=lambda each: (each[1].revision, each[1].savepoint is None))
        finally:
            with suppress(NotExist):
                files.drop_savepoint(name)

    def _save_snapshot(
        self, found: StoreRecord, root: str, snapshot: SnapshotRecord, known: dict[tuple[str, str], int]
    ) -> None:
        """Save the files of ``snapshot``, which the directory ``root`` shows. A file that an earlier snapshot contains
        as well is not saved a second time.

        ``known`` has the index in ``found.files`` of each file that is saved already, by path and version.
        """
        files = self._client.store(found.name).files
        for status in list(walk(files, root)):
            path = status.path.removeprefix(f"{root}/")
            key = path, status.version
            if key in known:
                before = found.files[known[key]]
                found.files[known[key]] = replace(before, at=(*before.at, snapshot.revision))
            else:
                known[key] = len(found.files)
                found.files.append(self._save_file(files, path, status, snapshot.revision))
        found.snapshots.append(snapshot)

    def _save_file(self, files: JobFiles, path: str, status: JobFile, revision: int) -> FileRecord:
        if status.directory:
            return FileRecord(path, (revision,), directory=True)
        try:
            with files.open(status.path) as chunks:
                member, sha256, failure = self._archive.add_data(status.size, self._bar.counted(chunks))
        except Damaged as error:
            return FileRecord(path, (revision,), size=status.size, damage=str(error))
        if failure is None and sha256 != status.sha256:
            failure = "its bytes do not have the digest of its record"
        if failure:
            return FileRecord(path, (revision,), size=status.size, damage=failure)
        return FileRecord(path, (revision,), size=status.size, sha256=sha256, member=member)


def _described(handle: Handle, member: str | None = None, damage: str | None = None) -> HandleRecord:
    return HandleRecord(
        handle.name,
        handle.size,
        handle.sha256,
        dict(handle.labels),
        handle.version,
        handle.created.isoformat(),
        handle.updated.isoformat(),
        handle.epoch,
        member,
        damage,
    )

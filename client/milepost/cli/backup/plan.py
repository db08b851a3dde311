"""Plans a restore: compares the backup with the content of the service before anything is written.

If anything would prevent the restore from being completed, nothing is restored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from milepost.cli.backup.archive import Backup, Slice
from milepost.cli.backup.format import DAMAGED, FileRecord, HandleRecord, SnapshotRecord, StoreRecord
from milepost.cli.backup.histories import history_in
from milepost.client import Client
from milepost.errors import MilepostError
from milepost.files import walk
from milepost.job_types import HistoryEntry
from milepost.types import CorruptHandle, StoreSummary
from milepost.wire import is_state_metadata

_CHUNK: Final = 256 * 1024
_HINT: Final = "; --skip-existing leaves alone what is there already and the same"


class CannotRestore(MilepostError):
    """A backup cannot be restored as requested. Nothing was written."""


@dataclass
class Planned:
    """The plan for one store of a backup: what a restore writes into the store ``target`` of the service.

    If the store is renamed, ``changed`` has the new bytes of the files that contain the old path of the job, by the
    names of their members in the tar. ``granted`` is the last epoch of the store in the service, 0 if it has none.
    """

    target: str
    record: StoreRecord
    handles: list[HandleRecord] = field(default_factory=list)
    snapshots: list[SnapshotRecord] = field(default_factory=list)
    changed: dict[str, bytes] = field(default_factory=dict)
    history: list[HistoryEntry] = field(default_factory=list)
    has_history: bool = False
    """Whether an earlier restore of the same backup has restored the history; this one then goes on."""
    skipped: int = 0
    granted: int = 0
    there: dict[str, str] = field(default_factory=dict)
    """The files of the backup that the store has already: SHA-256 by path."""

    @property
    def needs_epoch(self) -> bool:
        """Whether the store must be written under a new epoch: it has files, or an epoch of it was ever granted, either
        by the service that was saved or by the service that the restore writes to.
        """
        return self.record.epoch > 0 or self.granted > 0 or bool(self.record.snapshots)

    @property
    def done(self) -> bool:
        """Whether an earlier restore has completed the store: nothing is left to write, and its epoch is above the one
        in the backup.
        """
        return not self.handles and not self.snapshots and self.granted > self.record.epoch

    def sha256(self, file: FileRecord) -> str:
        """Return the SHA-256 that a file will have after the restore. It differs from the saved one if renaming the job
        changes the content of the file.
        """
        changed = None if file.member is None else self.changed.get(file.member)
        return file.sha256 if changed is None else hashlib.sha256(changed).hexdigest()

    def shown(self, snapshot: SnapshotRecord) -> dict[str, FileRecord]:
        """Return the files and directories in a snapshot, by path."""
        return {file.path: file for file in self.record.files if snapshot.revision in file.at}


class Planner:
    """Plans the restore of stores into a service that grants only epochs above ``epochs_above``.

    ``conflicts`` collects what prevents a restore. With ``skip_existing``, an item that the service has already, with
    the same content, is left alone instead of being a conflict; ``hint`` names this option if it would avoid a
    conflict. ``notes`` says what the restore leaves as it is.
    """

    def __init__(self, backup: Backup, client: Client, epochs_above: int, *, skip_existing: bool) -> None:
        self._backup = backup
        self._client = client
        self._epochs_above = epochs_above
        self._skip_existing = skip_existing
        self._there: dict[str, StoreSummary] = {each.store: each for each in client.stores()}
        self.conflicts: list[str] = []
        self.notes: list[str] = []
        self.hint = ""

    def plan(self, record: StoreRecord, target: str) -> Planned:
        """Plan the restore of one store under the name ``target``. What prevents it is added to ``conflicts``."""
        planned = Planned(target, record)
        self._check_epoch(planned)
        self._plan_handles(planned)
        self._plan_files(planned)
        self._plan_history(planned)
        return planned

    def _check_epoch(self, planned: Planned) -> None:
        summary, had = self._there.get(planned.target), planned.record.epoch
        if summary is not None and summary.epoch is None:
            self.conflicts.append(f"store {planned.target}: its own record is damaged there")
        planned.granted = (summary.epoch or 0) if summary else 0
        grants = max(planned.granted, self._epochs_above) + 1
        if planned.needs_epoch and grants <= had:
            self.conflicts.append(
                f"store {planned.target}: it had epoch {had} when it was saved, and this service would grant {grants}: "
                "a driver of before would pass for a present one. Start the service with --epochs-above and a number "
                f"above every epoch that was ever granted, {had} at least"
            )

    def _plan_handles(self, planned: Planned) -> None:
        there = {}
        if planned.target in self._there and self._there[planned.target].epoch is not None:
            there = {handle.name: handle for handle in self._client.store(planned.target).look_through()}
        for handle in planned.record.handles:
            found = there.get(handle.name)
            if handle.member is None:
                continue
            if found is None:
                planned.handles.append(handle)
            elif isinstance(found, CorruptHandle):
                self.conflicts.append(f"handle {planned.target}/{handle.name}: its record there is damaged")
            elif found.removing:
                self.conflicts.append(f"handle {planned.target}/{handle.name} is being removed there: try again soon")
            elif (found.sha256, dict(found.labels)) != (handle.sha256, dict(handle.labels)):
                self.conflicts.append(f"handle {planned.target}/{handle.name}: another state or label is there")
            elif not self._skip_existing:
                self.conflicts.append(f"handle {planned.target}/{handle.name} is there; the same")
                self.hint = _HINT
            else:
                planned.skipped += 1

    def _plan_history(self, planned: Planned) -> None:
        """Plan to restore the history, if the store has none there, or only the one that an earlier restore of the same
        backup has restored.
        """
        entries = [entry for entry in planned.record.history if entry.kind != DAMAGED]
        if not entries:
            return
        there = history_in(self._client, planned.target) if planned.target in self._there else []
        planned.has_history = (self._backup.made, planned.record.name) in {(each.since, each.source) for each in there}
        if not there or planned.has_history:
            planned.history = entries
        else:
            self.notes.append(f"the history of {planned.target} is left as it is there")

    def _plan_files(self, planned: Planned) -> None:
        record = planned.record
        broken = {revision for file in record.files if file.damage for revision in file.at}
        planned.snapshots = [snapshot for snapshot in record.snapshots if snapshot.revision not in broken]
        if planned.target != record.name:
            self._rename_files(planned)
        if not planned.snapshots:
            return
        files = self._client.store(planned.target).files
        there = [status for status in walk(files) if not status.directory]
        if there and not self._skip_existing:
            self.conflicts.append(f"files of {planned.target}: there are some already, such as {there[0].path}")
            self.hint = _HINT
            return
        known = {(file.path, planned.sha256(file)) for file in record.files if not file.directory}
        for status in there:
            with files.open(status.path) as chunks:
                sha256 = digest_of(chunks)
            if (status.path, sha256) not in known:
                self.conflicts.append(f"file {status.path} of {planned.target} is there, and not of this backup")
            planned.there[status.path] = sha256
        self._skip_snapshots(planned)

    def _skip_snapshots(self, planned: Planned) -> None:
        """Remove from the plan the snapshots that an earlier restore has finished.

        These are savepoints that exist already, or all snapshots if the store's files are already those of the last
        one.
        """
        if not planned.there:
            return
        kept = self._client.store(planned.target).files.snapshots()
        savepoints = {
            (savepoint.name, savepoint.snapshot.directory, savepoint.snapshot.batch) for savepoint in kept.savepoints
        }
        newest = [
            (snapshot.directory, snapshot.batch)
            for snapshot in sorted(kept.snapshots, key=lambda snapshot: snapshot.revision)[-1:]
        ]
        last = planned.snapshots[-1]
        shown = {path: planned.sha256(file) for path, file in planned.shown(last).items() if not file.directory}
        left = [each for each in planned.snapshots if (each.savepoint, each.directory, each.batch) not in savepoints]
        if (
            shown == planned.there
            and all(each.savepoint is None for each in left)
            and newest == [(last.directory, last.batch)]
        ):
            left = []
        planned.skipped += len(planned.there) if not left else 0
        planned.snapshots = left

    def _rename_files(self, planned: Planned) -> None:
        """Replace the job's old path by its new one in the metadata of Spark's state.

        If any other file contains the old path, the job cannot be renamed, which is a conflict.
        """
        old, new = f"/jobs/{planned.record.name}/".encode(), f"/jobs/{planned.target}/".encode()
        for file in planned.record.files:
            if file.member is None or file.member in planned.changed:
                continue
            content = self._backup.slice(file.member)
            if is_state_metadata(file.path, file.size):
                data = content.read()
                if old in data:
                    planned.changed[file.member] = data.replace(old, new)
            elif _has(content, old):
                self.conflicts.append(
                    f"file {file.path} of {planned.record.name} names {old.decode()!r}, so it cannot be renamed: its "
                    "copy would lead there"
                )


def digest_of(chunks: Iterable[bytes]) -> str:
    """Return the SHA-256 of the bytes in ``chunks``, in lower-case hex."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _has(content: Slice, wanted: bytes) -> bool:
    end = b""
    while chunk := content.read(_CHUNK):
        if wanted in end + chunk:
            return True
        end = (end + chunk)[-len(wanted) :]
    return False

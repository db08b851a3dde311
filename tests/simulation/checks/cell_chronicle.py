"""The journals of all cells: where each job is, which epochs it was granted, and what moves take along.

All of this is read from what is committed, and not from what any cell answers.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from milepost_backends.contract import BlobMissing, Change
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.history import ACTS, BATCHES, EPOCH_GRANTED, HistoryEntry, HistoryPage, page_key
from milepost_server.model.moves import ARRIVING, CLEARING, MOVED, Move, sealed
from milepost_server.model.paths import path_key
from milepost_server.model.records import Handle, Record, Store, decode, handle_of, store_key, store_of
from milepost_server.model.trees import Entry, Tree, TreePath
from milepost_server.rules.handlers.handles import absent
from milepost_server.rules.trees.visibility import visible
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.trace import Trace
from tests.simulation.world.blobs import BlobService

Content = Mapping[str, Any]
"""All that a job has, without the keys of its blobs."""


class CellChronicle:
    """What is committed in the cells. ``changes`` counts the commits about each job; ``known`` has all jobs."""

    def __init__(self, trace: Trace, tally: Counter[str]) -> None:
        self.blobs: dict[str, BlobService] = {}
        self.changes: Counter[str] = Counter()
        self.known: dict[str, str] = {}
        self._trace = trace
        self._tally = tally
        self._states: dict[str, State] = defaultdict(State)
        self._granted: dict[str, dict[int, str]] = defaultdict(dict)
        self._versions: dict[str, int] = defaultdict(int)
        self._written: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._left: dict[str, Content] = {}
        self._savepoints: dict[str, set[str]] = defaultdict(set)

    # -- what is committed -----------------------------------------------------------------------------------------

    def committed(self, cell: str, changes: Sequence[Change]) -> None:
        """A group has been committed in a cell."""
        state = self._states[cell]
        by_job: dict[str, dict[str, Record | None]] = defaultdict(dict)
        others: dict[str, Record | None] = {}
        for key, value in changes:
            record = None if value is None else decode(key, value)
            job = store_of(key)
            (others if job is None else by_job[job])[key] = record
        before = {job: self._before(cell, job, changed) for job, changed in by_job.items()}
        old = {job: state.store(job) for job in by_job}
        replaced = {key: state.get(key) for changed in by_job.values() for key in changed}
        state.apply(others.items())
        for job, changed in by_job.items():
            state.apply(changed.items())
            was, now = old[job], state.store(job)
            assert isinstance(was, Store | None) and isinstance(now, Store), f"{job} in {cell}: {was}, {now}"  # noqa: PT018
            self.changes[job] += 1
            self._begins(cell, job, was)
            self._moves(cell, job, was, now, before[job])
            if now.elsewhere is None:
                self._grants(cell, job, replaced, changed)
                self._writes(cell, job, replaced, changed)
            self._is_in_one(job)

    def _before(self, cell: str, job: str, changed: Mapping[str, Record | None]) -> Content | None:
        """What the job had here, if its record changes."""
        was = self._states[cell].store(job)
        return self.content(cell, job) if store_key(job) in changed and isinstance(was, Store) else None

    def _begins(self, cell: str, job: str, was: Store | None) -> None:
        if was is not None or self._move(cell, job) is not None:
            return
        others = [other for other in self._states if other != cell and self._states[other].store(job) is not None]
        if others:
            raise Violation(Invariant.BEGUN_ONCE, f"{job} begins in {cell}, and {others} know it")
        self._trace.note("begun", job, cell)
        self._tally["jobs"] += 1
        self.known[job] = cell

    def _move(self, cell: str, job: str) -> Move | None:
        store = self._states[cell].store(job)
        return store.elsewhere if isinstance(store, Store) else None

    def _moves(self, cell: str, job: str, was: Store | None, now: Store, before: Content | None) -> None:
        old, new = None if was is None else was.elsewhere, now.elsewhere
        if was is not None and old is None and new is not None:
            assert before is not None
            if new.phase != MOVED:
                raise Violation(Invariant.IN_ONE_CELL, f"{job} was in {cell}, and now is {new}")
            self._trace.note("tombstone", job, cell, new.cell, new.epoch)
            self._tally["tombstones"] += 1
            self._left[job] = before
            arrived = self.content(new.cell, job) if self._move(new.cell, job) is not None else None
            self._is_whole(job, before, arrived, f"is to be in {new.cell}")
        elif old is not None and new is None:
            assert before is not None
            self._trace.note("arrived", job, cell, old.epoch)
            self._tally["moves"] += 1
            self._is_whole(job, self._left.get(job), before, f"is in {cell}")
            self._bytes_are_there(cell, job)
            self.known[job] = cell
        elif old is not None and old.phase == MOVED and new is not None:
            back = new.phase in (CLEARING, ARRIVING) and new.epoch > old.epoch
            # what maintenance writes while it drops what was there shows nothing
            shown = [part for part, there in self.content(cell, job).items() if there]
            if not back and (was != now or shown):
                raise Violation(Invariant.NONE_BEHIND, f"{job} has left {cell} by {old}, now {now}, with {shown}")
        if new is not None and now.epoch_session is not None:
            raise Violation(Invariant.EPOCH_RISES, f"{cell} has granted an epoch of {job}, which is not there: {now}")

    def _is_whole(self, job: str, left: Content | None, arrived: Content | None, where: str) -> None:
        if left is None or arrived is None:
            raise Violation(Invariant.IN_ONE_CELL, f"{job} {where}, and has left no other cell")
        differing = [part for part in left if left[part] != arrived[part]]
        if differing:
            detail = "; ".join(f"{part} {left[part]}, now {arrived[part]}" for part in differing)
            raise Violation(Invariant.MOVED_WHOLE, f"{job} {where}, and had {detail}")
        if missing := self._savepoints[job] - set(arrived["savepoints"]):
            raise Violation(Invariant.MOVED_WHOLE, f"{job} {where}, and has no savepoints {sorted(missing)}")

    def _grants(
        self, cell: str, job: str, before: Mapping[str, Record | None], changed: Mapping[str, Record | None]
    ) -> None:
        """Each epoch is granted once, whichever cell does, and above all that were granted before."""
        granted = self._granted[job]
        for entry in _new_entries(before, changed):
            if entry.kind != EPOCH_GRANTED or entry.epoch is None:
                continue
            self._tally["epochs"] += 1
            self._trace.note("granted", job, cell, entry.epoch)
            if entry.epoch <= max(granted, default=0):
                known = f"it was granted by {granted.get(entry.epoch)}, the newest is {max(granted)}"
                raise Violation(Invariant.EPOCH_RISES, f"{cell} grants epoch {entry.epoch} of {job} anew: {known}")
            granted[entry.epoch] = cell
        store = self._states[cell].store(job)
        assert isinstance(store, Store)
        if store.epoch_session is not None and granted.get(store.epoch) != cell:
            raise Violation(Invariant.EPOCH_RISES, f"{job} is under {store} in {cell}: {granted}")

    def _writes(
        self, cell: str, job: str, before: Mapping[str, Record | None], changed: Mapping[str, Record | None]
    ) -> None:
        """Versions rise, whichever cell gives them, and what is written is noted."""
        newest = self._versions[job]
        for key, record in changed.items():
            old = before[key]
            if isinstance(record, Handle) and not (isinstance(old, Handle) and old.version == record.version):
                at = int(record.version.rpartition(".")[2])
                if at <= self._versions[job]:
                    raise Violation(
                        Invariant.VERSION_REUSED, f"{key} gets version {record.version} in {cell} after {newest}"
                    )
                newest = max(newest, at)
                self._written[job, (handle_of(key) or ("", ""))[1]].add(f"{record.version} {record.sha256}")
            if isinstance(record, TreePath):
                for entry in record.entries:
                    if not entry.directory:
                        self._written[job, record.path].add(entry.sha256)
        self._versions[job] = newest

    def _is_in_one(self, job: str) -> None:
        stores = {cell: state.store(job) for cell, state in self._states.items()}
        here = [cell for cell, store in stores.items() if isinstance(store, Store) and store.elsewhere is None]
        if len(here) == 1:
            return
        if here:
            raise Violation(Invariant.IN_ONE_CELL, f"{job} is in {here}: {stores}")
        for old in stores:
            moved = self._move(old, job)
            new = None if moved is None or moved.phase != MOVED else self._move(moved.cell, job)
            if moved is not None and new is not None and new.phase == ARRIVING and new.seal == sealed(moved.seal):
                return
        raise Violation(Invariant.IN_ONE_CELL, f"{job} is nowhere: {stores}")

    # -- what a job has --------------------------------------------------------------------------------------------

    def content(self, cell: str, job: str) -> Content:
        """All that the job has in a cell."""
        state = self._states[cell]
        view, store, tree = View(state), state.store(job), state.tree(job) or Tree(job)
        assert isinstance(store, Store) and isinstance(tree, Tree)  # noqa: PT018 - nothing damages records here
        files = {path: visible(view, store, tree, path) for path in state.paths(job, "")}
        return {
            "handles": {handle.name: _of_handle(handle) for handle in self._handles(cell, job)},
            "files": {path: _of_entry(entry) for path, entry in files.items() if isinstance(entry, Entry)},
            "snapshots": [snapshot.revision for snapshot in tree.snapshots],
            "savepoints": {savepoint.name: savepoint.revision for savepoint in tree.savepoints},
            "history": [
                (entry.kind, entry.epoch, entry.revision, entry.number)
                for log in (ACTS, BATCHES)
                for number in state.history_pages(job, log)
                for entry in _entries(state.get(page_key(job, log, number)))
            ],
        }

    def _handles(self, cell: str, job: str, *, removing: bool = False) -> Iterator[Handle]:
        state = self._states[cell]
        store = state.store(job)
        assert isinstance(store, Store)
        for name in state.names(job):
            record = state.handle(job, name)
            if isinstance(record, Handle) and not absent(store, record) and (removing or not record.removing):
                yield record

    def _named(self, cell: str, job: str) -> Iterator[tuple[str, str]]:
        """The blobs that must be there, each with its digest."""
        state = self._states[cell]
        for handle in self._handles(cell, job):
            if handle.blob:
                yield handle.blob, handle.sha256
        for path in state.paths(job, ""):
            record = state.get(path_key(job, path))
            for entry in record.entries if isinstance(record, TreePath) else ():
                if entry.blob and not entry.deleted_revision:
                    yield entry.blob, entry.sha256

    def _bytes_are_there(self, cell: str, job: str) -> None:
        for blob, sha256 in self._named(cell, job):
            try:
                data = self.blobs[cell].get(blob)
            except BlobMissing as error:
                raise Violation(Invariant.BLOB_THERE, f"{job} has come to {cell} without {blob}") from error
            if hashlib.sha256(data).hexdigest() != sha256:
                raise Violation(Invariant.BLOB_THERE, f"{job} has come to {cell} with other bytes in {blob}")

    def deleted(self, cell: str, blob: str) -> None:
        """A blob of a cell has been deleted."""
        for job in self.known:
            move = self._move(cell, job)
            if self._states[cell].store(job) is None or (move is not None and move.phase != ARRIVING):
                continue
            if any(named == blob for named, _ in self._named(cell, job)):
                raise Violation(Invariant.BLOB_THERE, f"{blob} was deleted while {job} in {cell} names it")

    # -- what clients are told -------------------------------------------------------------------------------------

    def wrote(self, job: str, name: str, what: str) -> None:
        """A client was told that a handle, or a file, is written: ``what`` is its version and digest, or its digest."""
        if what not in self._written[job, name]:
            raise Violation(Invariant.TRUTHFUL_YES, f"{what} was acknowledged of {name} of {job}, and is in no journal")

    def granted(self, job: str, epoch: int) -> None:
        """A client was told that it is granted an epoch."""
        if epoch not in self._granted[job]:
            raise Violation(Invariant.TRUTHFUL_YES, f"epoch {epoch} of {job} was acknowledged, and is in no journal")

    def keeps(self, job: str, savepoint: str) -> None:
        """A client was told that a savepoint is kept; nobody here drops one."""
        self._savepoints[job].add(savepoint)

    def read(self, job: str, cell: str, versions: Mapping[str, str]) -> None:
        """A client was told of all handles, while nothing of the job changed."""
        there = {handle.name: handle.version for handle in self._handles(cell, job)}
        removing = {handle.name: handle.version for handle in self._handles(cell, job, removing=True)}
        if not there.items() <= versions.items() <= removing.items():  # a listing may have what is being removed
            raise Violation(Invariant.STALE_READ, f"{job} in {cell} was read as {versions}, and is {there}")


def _new_entries(before: Mapping[str, Record | None], changed: Mapping[str, Record | None]) -> Iterator[HistoryEntry]:
    found = {
        (entry.revision, entry.number): entry
        for key, record in changed.items()
        for entry in _entries(record)
        if entry not in _entries(before[key])
    }
    yield from (found[place] for place in sorted(found))


def _entries(record: object) -> Sequence[HistoryEntry]:
    return record.entries if isinstance(record, HistoryPage) else ()


def _of_handle(handle: Handle) -> Iterable[Any]:
    return handle.version, handle.size, handle.sha256, handle.epoch, handle.created_revision, dict(handle.labels)


def _of_entry(entry: Entry) -> Iterable[Any]:
    return entry.created_revision, entry.epoch, entry.directory, entry.size, entry.sha256

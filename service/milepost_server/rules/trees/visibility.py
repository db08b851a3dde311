"""Decide which entry of a path is visible: now, or at the revision of a snapshot."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from milepost_server.memory.lookup import Lookup
from milepost_server.memory.view import View
from milepost_server.model.paths import is_below, is_temporary, path_key, snapshot_of
from milepost_server.model.records import Corrupt, Store
from milepost_server.model.trees import Entry, Rollback, Tree, TreePath

ROOT = Entry(created_revision=0, modified="1970-01-01T00:00:00.000Z", directory=True)
"""The entry of the root directory, which every tree has without a record."""


MOST_TOMBSTONES = 2000
"""The most deleted entries below a directory that one decision may read, since a decision blocks all other requests."""


def visible(view: Lookup, store: Store, tree: Tree, path: str) -> Entry | Corrupt | None:
    """Return the entry that is visible at a path now; None if there is none, `Corrupt` if the record of the path cannot
    be read. ``tree`` is the record of the tree in ``view``.
    """
    if not path:
        return ROOT
    record = view.get(path_key(store.name, path))
    if type(record) is not TreePath:
        if record is None and not tree.manifests:
            return None
        record = record_at(view, store, tree, path)
        return visible_in(record, store, tree) if isinstance(record, TreePath) else record
    if tree.rollbacks or tree.range_tombstones:
        return visible_in(record, store, tree)
    # as in `visible_in`, without a call: a decision looks at each directory above a path
    entries = record.entries
    if not entries or entries[-1].deleted_revision:
        return None
    entry = entries[-1]
    return entry if entry.created_revision > store.granted or entry.directory else visible_in(record, store, tree)


def record_at(view: Lookup, store: Store, tree: Tree, path: str) -> TreePath | Corrupt | None:
    """Return the record of a path, as `Lookup.path` does. ``tree`` is the record of the tree in ``view``."""
    record = view.get(path_key(store.name, path))
    if record is not None and isinstance(record, (TreePath, Corrupt)):
        return record
    return view.compacted(store.name, path) if tree.manifests else None


def visible_in(record: TreePath, store: Store, tree: Tree) -> Entry | None:
    """Return the entry of a path's record that is visible now; None if there is none."""
    if tree.rollbacks:
        record = rolled_back(record, tree)
    entry = record.entries[-1] if record.entries else None
    if entry is None or entry.deleted_revision:
        return None
    if entry.created_revision > store.granted and not tree.range_tombstones:
        return entry  # neither a grant nor a range tombstone can have deleted it
    return None if deleted_at(record.path, entry, store, tree) else entry


def deleted_at(path: str, entry: Entry, store: Store, tree: Tree) -> int:
    """Return the revision at which an entry was deleted, 0 if it is visible.

    Not every deletion is stated in the entry itself. A range tombstone of a directory above may have deleted the entry;
    the earliest one counts. A temporary file is deleted by the grant of the next epoch, after which no driver can
    rename it.
    """
    at = entry.deleted_revision
    if entry.created_revision <= store.granted and is_temporary_file(path, entry):
        at = min(at or store.granted, store.granted)
    for tombstone in tree.range_tombstones:
        if entry.created_revision <= tombstone.revision and is_below(path, tombstone.path):
            at = min(at or tombstone.revision, tombstone.revision)
    return at


def is_temporary_file(path: str, entry: Entry) -> bool:
    """Return whether the entry is a file under a temporary name. No snapshot shows such a file, since no driver reads
    it again.
    """
    return not entry.directory and is_temporary(path)


class TooManyTombstones(Exception):
    """Raised if there are more deleted entries (``tombstones``) below a directory than a decision may read. Some of
    them can be trimmed, unless snapshots or savepoints show all of them.
    """

    def __init__(self, tombstones: Sequence[TreePath]) -> None:
        super().__init__(f"{len(tombstones)} paths are tombstones")
        self.tombstones = tombstones


def visible_below(view: View, store: Store, tree: Tree, directory: str) -> Iterator[tuple[str, Entry]]:
    """Yield the visible entries below a directory with their paths, in no order. Raises `TooManyTombstones`."""
    tombstones: list[TreePath] = []
    for record in view.paths(store.name, directory):
        entry = visible_in(record, store, tree)
        if entry is not None:
            yield record.path, entry
            continue
        tombstones.append(record)
        if len(tombstones) > MOST_TOMBSTONES:
            raise TooManyTombstones(tombstones)


def visible_at(record: TreePath, revision: int, store: Store, tree: Tree) -> Entry | None:
    """Return the entry that was visible at the revision of a kept snapshot or of a savepoint; None if none was."""
    record = rolled_back(record, tree)
    for entry in reversed(record.entries):
        if entry.created_revision <= revision and not 0 < deleted_at(record.path, entry, store, tree) <= revision:
            return None if is_temporary_file(record.path, entry) else entry
    return None


def shown(view: Lookup, store: Store, tree: Tree, path: str) -> Entry | Corrupt | None:
    """Return the entry that is visible at a path; for a path below `SNAPSHOTS`, the entry that the snapshot or
    savepoint shows. None if there is none, `Corrupt` if the record of the path cannot be read.
    """
    inside = snapshot_of(path)
    if inside is None:
        return visible(view, store, tree, path)
    snapshot, inner = inside
    revision = tree.revisions.get(snapshot) if snapshot else 0
    if revision is None or not inner:
        return None if revision is None else ROOT
    record = view.path(store.name, inner)
    return visible_at(record, revision, store, tree) if isinstance(record, TreePath) else record


def is_shown(path: str, entry: Entry, deleted_revision: int, kept: Sequence[int]) -> bool:
    """Return whether an entry, deleted at this revision, is visible at one of the sorted revisions ``kept`` of
    snapshots and savepoints.
    """
    if is_temporary_file(path, entry):
        return False
    first = bisect_left(kept, entry.created_revision)
    return first < len(kept) and kept[first] < deleted_revision


def rolled_back(record: TreePath, tree: Tree) -> TreePath:
    """Apply to the record of a path the tree's rollbacks that it does not reflect yet, and return the result.

    Entries that were visible at the rollback's target revision are visible again, and later entries are deleted.
    """
    for rollback in tree.rollbacks:
        if record.rolled_back < rollback.at:
            entries = record.entries if rollback.keeps(record.path) else _undone(record, rollback)
            record = replace(record, entries=entries, rolled_back=rollback.at)
    return record


def _undone(record: TreePath, rollback: Rollback) -> tuple[Entry, ...]:
    """Return the entries after a rollback; entries created after the rollback stay unchanged.

    Temporary files are deleted too, since no snapshot shows them.
    """
    entries: list[Entry] = []
    later = [entry for entry in record.entries if entry.created_revision > rollback.at]
    for entry in record.entries[: len(record.entries) - len(later)]:
        if not entry.deleted_revision and (
            entry.created_revision > rollback.to or is_temporary_file(record.path, entry)
        ):
            entry = replace(entry, deleted_revision=rollback.at)
        entries.append(entry)
        if entry.created_revision <= rollback.to < entry.deleted_revision and not is_temporary_file(record.path, entry):
            later = [replace(entry, created_revision=rollback.at, deleted_revision=0, moved_from="")]
    return (*entries, *later)

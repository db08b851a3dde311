"""The changes that one request makes in a tree: it creates and deletes entries, and keeps deleted entries that a
snapshot shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from milepost_server.memory.view import View
from milepost_server.model.paths import commit_of, is_temporary, offsets_of, path_key
from milepost_server.model.records import Corrupt, Store, Stored, tree_key
from milepost_server.model.requests.trees import TreeRequest
from milepost_server.model.trees import MOST_SNAPSHOTS, Entry, RangeTombstone, Tree, TreePath, TreeSnapshot
from milepost_server.rules import history, replays
from milepost_server.rules.decisions import Accepted, Answer, DecisionContext
from milepost_server.rules.trees.visibility import (
    deleted_at,
    is_shown,
    record_at,
    rolled_back,
    visible,
)


class TreeChange:
    """Collects the records of a tree that one request changes. ``tree`` is the record of the tree as a whole after the
    request.
    """

    def __init__(self, view: View, store: Store, tree: Tree, context: DecisionContext) -> None:
        self.tree = tree
        self._unchanged = tree
        self._view = view
        self._store = store
        self._context = context
        self._records: dict[str, TreePath] = {}
        self._replaced: dict[str, TreePath | Corrupt | None] = {}
        self._batches: list[tuple[str, int, Entry]] = []

    def begin(self, path: str, entry: Entry) -> None:
        """Put an entry at a path, and delete the entry that was there. If the path is the file by which Spark commits a
        batch, make a snapshot.
        """
        if self._context.dry:
            return
        self._records[path] = self._with(path, entry)
        committed = None if entry.directory else commit_of(path)
        if committed is not None:
            self._take_snapshot(*committed, entry.modified)
            self._batches.append((*committed, entry))

    def end(self, path: str, *, shared: bool = False) -> None:
        """Delete the entry at a path. ``shared`` is True for the source of a rename, since the blob is named under
        another path from then on.
        """
        self._records[path] = self._with(path, shared=shared)

    def tombstone(self, path: str) -> None:
        """Delete everything below a path, by a range tombstone."""
        self.tree = replace(
            self.tree, range_tombstones=(*self.tree.range_tombstones, RangeTombstone(path, self._context.revision))
        )

    def entry(self, *, epoch: int | None, **members: Any) -> Entry:
        """Return a new entry, created by this request."""
        return Entry(self._context.revision, self._context.wall, epoch, **members)

    def accepted(self, request: TreeRequest, answer: Answer) -> Accepted:
        """Return the decision. The record of the request's path keeps the answer, unless that record is dropped."""
        if self._context.dry:
            return Accepted(answer)
        changes: dict[str, Stored | None] = {}
        for path, record in self._records.items():
            key = path_key(self._store.name, path)
            if record.entries or is_kept(self._view, self.tree, path):
                asked = path == request.path
                changes[key] = replays.remember(record, request, self._context, answer) if asked else record
            elif self._replaced[path] is not None:
                changes[key] = None
        if self.tree is not self._unchanged:
            changes[tree_key(self._store.name)] = self.tree
        for directory, batch, entry in self._batches:
            if entry.moved_from in ("", request.path):  # not a file of a renamed directory, which was committed before
                offsets = self._offsets(directory, batch)
                changes |= history.batch_committed(
                    self._view, self._unchanged, directory, batch, offsets, entry.epoch, self._context
                )
        return Accepted(answer, changes, discards=unnamed(self._view, self._store.name, self._records, self._replaced))

    def _offsets(self, directory: str, batch: int) -> Entry | None:
        """Return the file with the offsets of a batch, which Spark stored to begin it, perhaps under an earlier epoch;
        None if there is none.
        """
        offsets = visible(self._view, self._store, self._unchanged, offsets_of(directory, batch))
        return offsets if isinstance(offsets, Entry) else None

    def _with(self, path: str, *begun: Entry, shared: bool = False) -> TreePath:
        record: TreePath | Corrupt | None = self._records.get(path)
        if record is None:
            record = self._replaced[path] = record_at(self._view, self._store, self._unchanged, path)
        if record is None or type(record) is Corrupt:
            if record is not None:
                self.tree = replace(self.tree, unsure=self._context.revision)
            return TreePath(path, begun)
        if self.tree.rollbacks:
            record = rolled_back(record, self.tree)
        last = record.newest
        if last is None:
            return replace(record, entries=(*record.entries, *begun))
        before = record.entries[:-1]
        # mark each entry that names the shared blob: after a rollback, the restored and the original entry name the
        # same one
        if shared and last.has_own_blob:
            before = tuple(replace(each, shared=True) if each.blob == last.blob else each for each in before)
        if last.directory or not is_temporary(path):
            deleted_revision = deleted_at(path, last, self._store, self.tree) or self._context.revision
            if is_shown(path, last, deleted_revision, self.tree.kept):
                ended = replace(last, deleted_revision=deleted_revision, shared=last.shared or shared)
                return replace(record, entries=(*before, ended, *begun))
        return replace(record, entries=(*before, *begun))

    def _take_snapshot(self, directory: str, batch: int, taken: str) -> None:
        """Make a snapshot of a query, whose batch was committed at the time ``taken``, in place of one of the same
        batch, and drop the oldest snapshots beyond the limit.

        Snapshots that a rollback passed over are dropped once all kept snapshots of the query are newer.

        Snapshots of one revision, as after the rename of a query's directory, are ordered by their batches, and the
        latest batches are kept.
        """
        others = [
            snapshot for snapshot in self.tree.snapshots if (snapshot.directory, snapshot.batch) != (directory, batch)
        ]
        snapshots = [*others, TreeSnapshot(directory, batch, self._context.revision, taken)]
        of_query = sorted(
            (snapshot for snapshot in snapshots if snapshot.directory == directory),
            key=lambda snapshot: (snapshot.revision, snapshot.batch),
        )
        too_many = of_query[: max(0, len(of_query) - self._context.kept_snapshots)]
        kept = [snapshot for snapshot in snapshots if snapshot not in too_many]
        passed_over = self.tree.passed_over
        if len(of_query) >= self._context.kept_snapshots:
            oldest = of_query[-self._context.kept_snapshots].revision
            passed_over = tuple(
                snapshot for snapshot in passed_over if snapshot.directory != directory or snapshot.revision > oldest
            )
        self.tree = replace(self.tree, snapshots=tuple(kept[-MOST_SNAPSHOTS:]), passed_over=passed_over)


def is_kept(view: View, tree: Tree, path: str) -> bool:
    """Return whether a path needs a record although it has no entries: without the record, a manifest, or the one that
    is being made, would show old entries of the path again.
    """
    return tree.compacting > 0 or (bool(tree.manifests) and view.compacted(tree.name, path) is not None)


def unnamed(
    view: View,
    store: str,
    changed: Mapping[str, TreePath],
    replaced: Mapping[str, TreePath | Corrupt | None],
) -> tuple[str, ...]:
    """Return the blobs that nothing will name any more once the ``changed`` records of paths have replaced the old
    ones, ``replaced``.

    A row of a manifest does not count if its path has a record of its own, which overrides the row. Two kinds of blobs
    are kept until the manifest is replaced: that of a renamed file, which a row of another path may name, and one that
    several small files share. If a record of a path cannot be read, it may name any of these blobs, so all of them are
    left to the garbage collector.
    """
    shared: dict[str, bool] = {}
    blobs_before: dict[str, dict[str, bool]] = {}
    for path, old in replaced.items():
        if type(old) is TreePath and old.blobs and (blobs := old.whole_blobs):
            blobs_before[path] = blobs
            shared |= blobs
    if not shared or view.damaged_path(store) is not None:
        return ()
    more = dict.fromkeys(shared, 0)
    for path, record in changed.items():
        for blob in record.whole_blobs.keys() & more.keys():
            more[blob] += 1
        for blob in blobs_before.get(path, ()):
            more[blob] -= 1
    fewer = {blob: count for blob, count in more.items() if count < 0}
    named = view.times_named(store, fewer)
    gone = [blob for blob, count in fewer.items() if named[blob] + count <= 0]
    return tuple(blob for blob in gone if not (shared[blob] and names_in_manifests(view, store, blob)))


def names_in_manifests(view: View, store: str, blob: str) -> bool:
    """Return whether a manifest of the tree may name the blob."""
    return any(rows.may_name(blob) for rows in view.manifests(store))

"""Decide the maintenance of a tree: drop entries that no reader can see any more, and compact records into manifests.

After a compaction, a manifest has the entries of thousands of records, and only the record of the tree refers to it.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt, Store, Stored, tree_key
from milepost_server.model.requests.trees import BeginCompaction, CompactTree, DropBlobs, DropCompacted, TrimTree
from milepost_server.model.trees import Tree, TreePath
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers, Refused
from milepost_server.rules.trees.tree_change import is_kept, names_in_manifests, unnamed
from milepost_server.rules.trees.visibility import deleted_at, is_shown, rolled_back


def begin_compaction(view: View, request: BeginCompaction, context: DecisionContext) -> Decision:
    """Begin a compaction: no record of a path is dropped from now on, so that the records can be read for a
    manifest.
    """
    store = view.store_or_new(request.store_name)
    tree = view.tree(store.name) or Tree(store.name)
    if isinstance(tree, Corrupt) or tree.rollbacks:
        return Refused(Code.VERSION_MISMATCH, f"the tree of {store.name!r} cannot be compacted now")
    return Accepted(
        Answer({"begun": context.revision}), {tree_key(store.name): replace(tree, compacting=context.revision)}
    )


def compact(view: View, request: CompactTree, _: DecisionContext) -> Decision:
    """Add a manifest after the manifests of the tree, or in place of some adjacent ones.

    The visible files do not change.
    """
    store = view.store_or_new(request.store_name)
    tree = view.tree(store.name) or Tree(store.name)
    added = () if request.manifest is None else (request.manifest,)
    if isinstance(tree, Corrupt):
        return Accepted(Answer())
    names, count = [manifest.blob for manifest in tree.manifests], len(request.replaced)
    first = names.index(request.replaced[0]) if count and request.replaced[0] in names else len(names)
    if tuple(names[first : first + count]) != request.replaced or {each.blob for each in added} & set(names):
        # the request was already applied, or the tree no longer has the manifests that it replaces
        return Accepted(Answer())
    if not count and not 0 < tree.compacting == request.begun:
        return Refused(
            Code.VERSION_MISMATCH,
            "a rollback or another compaction came between: the manifest was made of what was there before",
        )
    left = (*tree.manifests[:first], *added, *tree.manifests[first + count :])
    stale = tree.stale and (len(left) > 1 or request.savepoints != tree.savepoints)
    compacted = replace(tree, manifests=left, compacting=tree.compacting if count else 0, stale=stale)
    changes: dict[str, Stored | None] = {tree_key(store.name): compacted}
    return Accepted(Answer(), changes, discards=request.replaced)


def drop_blobs(view: View, request: DropBlobs, _: DecisionContext) -> Decision:
    """Delete the blobs that neither a record nor a manifest names any more.

    The record of the tree is written unchanged, since only a commit proves that this replica still leads and may delete
    blobs. If a record of a path cannot be read, it may name any of the blobs, so all of them are left to the garbage
    collector.
    """
    store = view.store_or_new(request.store_name)
    tree = view.tree(store.name)
    if not isinstance(tree, Tree) or view.damaged_path(store.name) is not None:
        return Accepted(Answer())
    named = view.times_named(store.name, request.blobs)
    gone = [blob for blob in request.blobs if not named[blob] and not names_in_manifests(view, store.name, blob)]
    return Accepted(Answer(), {tree_key(store.name): tree} if gone else {}, discards=tuple(gone))


def drop_compacted(view: View, request: DropCompacted, _: DecisionContext) -> Decision:
    """Drop the records of these paths that equal their rows in the manifests. Their blobs stay, since a manifest names
    them.

    No record is dropped while another manifest is being made, or while a rollback is unfinished: a record may reflect
    the rollback already, but its row does not say so, and the rollback would be applied to the row again.
    """
    store = view.store_or_new(request.store_name)
    tree = view.tree(store.name) or Tree(store.name)
    if isinstance(tree, Corrupt) or tree.compacting or tree.rollbacks:
        return Accepted(Answer())
    changes: dict[str, Stored | None] = {}
    for path in request.paths:
        key = path_key(store.name, path)
        record = view.get(key)
        if not isinstance(record, TreePath):
            continue
        row = view.compacted(store.name, path)
        if _spans(record) == (() if row is None else _spans(row)):
            changes[key] = None
    return Accepted(Answer(), changes)


def _spans(record: TreePath) -> tuple[tuple[int, int], ...]:
    """Return the creation and deletion revisions of each entry of a path. Two records of a path with the same revisions
    have the same entries, since no two entries of a path are created at the same revision.
    """
    return tuple((entry.created_revision, entry.deleted_revision) for entry in record.entries)


def trim(view: View, request: TrimTree, _: DecisionContext) -> Decision:
    """Drop the entries of these paths that no reader can see, and the range tombstones and rollbacks that are finished.

    A range tombstone or a rollback affects only entries that were created before it. So it can be dropped once
    maintenance has processed all these entries. If a record of a path cannot be read, tombstones and rollbacks are
    kept, since that record may be put back later without their effects.
    """
    store = view.store_or_new(request.store_name)
    tree = view.tree(store.name) or Tree(store.name)
    if isinstance(tree, Corrupt):
        return Accepted(Answer())
    changed: dict[str, TreePath] = {}
    replaced: dict[str, TreePath | Corrupt | None] = {}
    for path in request.paths:
        record = view.path(store.name, path)
        if isinstance(record, TreePath) and (trimmed := trimmed_of(record, store, tree)) != record:
            changed[path], replaced[path] = trimmed, record
    changes: dict[str, Stored | None] = {}
    for path, record in changed.items():
        stays = record.entries or is_kept(view, tree, path)
        changes[path_key(store.name, path)] = record if stays else None
    range_tombstones, rollbacks = tree.range_tombstones, tree.rollbacks
    if view.damaged_path(store.name) is None:
        range_tombstones = tuple(
            tombstone for tombstone in range_tombstones if tombstone not in request.range_tombstones
        )
        rollbacks = tuple(rollback for rollback in rollbacks if rollback not in request.rollbacks)
    if (range_tombstones, rollbacks) != (tree.range_tombstones, tree.rollbacks):
        changes[tree_key(store.name)] = replace(tree, range_tombstones=range_tombstones, rollbacks=rollbacks)
    return Accepted(Answer(), changes, discards=unnamed(view, store.name, changed, replaced))


def trimmed_of(record: TreePath, store: Store, tree: Tree) -> TreePath:
    """Return the record without the entries that no reader can see.

    In the result, each deleted entry states its own deletion. If only ``rolled_back`` would change, the record is
    returned unchanged, to save a write. But a rollback that restored an entry is always noted, even if a range
    tombstone has deleted the entry since; otherwise the rollback would restore the entry again.
    """
    known = rolled_back(record, tree)
    entries = []
    for entry in known.entries:
        deleted_revision = deleted_at(record.path, entry, store, tree)
        if not deleted_revision or is_shown(record.path, entry, deleted_revision, tree.kept):
            entries.append(
                entry
                if deleted_revision == entry.deleted_revision
                else replace(entry, deleted_revision=deleted_revision)
            )
    if tuple(entries) == known.entries == record.entries:
        return record
    return replace(known, entries=tuple(entries))


HANDLERS: Final[Handlers] = {
    CompactTree: compact,
    DropBlobs: drop_blobs,
    DropCompacted: drop_compacted,
    BeginCompaction: begin_compaction,
    TrimTree: trim,
}

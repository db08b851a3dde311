"""Drop what nothing shows any more: dead entries, what a range tombstone has deleted, temporary files of older
epochs.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import Corrupt, Store, Stored, tree_key
from milepost_server.rules.requests import TrimTree
from milepost_server.rules.stored.paths import path_key
from milepost_server.rules.stored.trees import Tree, TreePath
from milepost_server.rules.trees.tree_change import is_kept, unnamed
from milepost_server.rules.trees.visibility import deleted_at, is_shown, rolled_back


def trim(view: View, request: TrimTree, _: DecisionContext) -> Decision:
    """Drop the entries of these paths that nothing shows, and the range tombstones and rollbacks that the leader saw
    the end of.

    An entry that a range tombstone ended, or a rollback changed, begins before it. So once maintenance has been through
    all paths that it is about, no more come. While a record of a path cannot be read, they stay: it may be put back,
    and says nothing of them.
    """
    store = view.store_or_new(request.store_name)
    tree = view.tree(store.name) or Tree(store.name)
    if isinstance(tree, Corrupt):
        return Accepted(Answer())
    changed: dict[str, TreePath] = {}
    for path in request.paths:
        record = view.path(store.name, path)
        if isinstance(record, TreePath) and (trimmed := trimmed_of(record, store, tree)) != record:
            changed[path] = trimmed
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
    return Accepted(Answer(), changes, discards=unnamed(view, store.name, changed))


def trimmed_of(record: TreePath, store: Store, tree: Tree) -> TreePath:
    """Return the record without the entries that nothing shows; of those that are left, it says itself when they died.

    A rollback that changed nothing is not noted, as long as the record need not be written for anything else. One that
    brought an entry back must be, even if a range tombstone has ended that entry since: else it would bring it back
    again.
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
    TrimTree: trim,
}

"""Decide requests about earlier states of a tree: make or drop a savepoint, roll back, and clone into an empty tree."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.history import CLONED, ROLLED_BACK, SAVEPOINT_DROPPED, SAVEPOINT_MADE
from milepost_server.model.paths import parent_of
from milepost_server.model.records import Corrupt, Store, handle_key
from milepost_server.model.requests.trees import CloneTree, DropSavepoint, MakeSavepoint, RollBack
from milepost_server.model.trees import (
    MOST_ROLLBACKS,
    MOST_SAVEPOINTS,
    MOST_SNAPSHOTS,
    Entry,
    Rollback,
    Savepoint,
    Tree,
    TreePath,
    TreeSnapshot,
)
from milepost_server.rules import guards, history, replays
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers, Refused
from milepost_server.rules.handlers.handles import Added, added_handle, replaced_handle
from milepost_server.rules.trees.visibility import TooManyTombstones, visible, visible_at, visible_below


def change_tree(
    view: View, request: MakeSavepoint | DropSavepoint | RollBack | CloneTree, context: DecisionContext
) -> Decision:
    """Decide a request about a whole tree: make or drop a savepoint, roll the tree back, or fill it as a clone."""
    store = view.store_or_new(request.store_name)
    record = view.tree(store.name)
    if isinstance(record, Corrupt):
        return Refused(Code.CORRUPT, f"the record of the tree of {store.name!r} is damaged: {record.reason}")
    tree = record or Tree(store.name)
    match request:
        case MakeSavepoint():
            return _make_savepoint(view, tree, request, context)
        case DropSavepoint():
            return _drop_savepoint(view, store, tree, request, context)
        case RollBack():
            return _roll_back(view, store, tree, request, context)
        case CloneTree():
            return _clone(view, store, tree, request, context)


def _make_savepoint(view: View, tree: Tree, request: MakeSavepoint, context: DecisionContext) -> Decision:
    """Make a savepoint of the snapshot at a revision, or of the newest one; repeating the request is no error."""
    savepoint = savepoint_in(tree, request.savepoint, request.revision)
    if isinstance(savepoint, Refused):
        return savepoint
    if savepoint in tree.savepoints:
        return Accepted(Answer({"revision": savepoint.revision}))
    answer = Answer({"revision": savepoint.revision}, created=True)
    entered = history.act(view, request, SAVEPOINT_MADE, context, **about_savepoint(savepoint))
    made = replace(tree, savepoints=(*tree.savepoints, savepoint))
    return replays.accepted(made, request, context, answer, changes=entered)


def savepoint_in(tree: Tree, name: str, revision: int = 0) -> Savepoint | Refused:
    """Return the savepoint ``name`` of the snapshot at a revision, or of the newest one if that is 0; it may exist
    already. Return the refusal if it cannot be made. A snapshot may have several savepoints.
    """
    snapshots: list[TreeSnapshot | Savepoint] = [
        *(savepoint for savepoint in tree.savepoints if savepoint.revision == revision),
        *(snapshot for snapshot in tree.snapshots if revision in (0, snapshot.revision)),
        *(snapshot for snapshot in tree.passed_over if snapshot.revision == revision),
    ]
    if not snapshots:
        detail = f"at revision {revision}" if revision else "yet"
        return Refused(Code.NOT_EXIST, f"the tree of {tree.name!r} has no snapshot {detail}")
    snapshot = max(snapshots, key=lambda each: each.revision)
    savepoint = Savepoint(name, snapshot.directory, snapshot.batch, snapshot.revision)
    if savepoint in tree.savepoints:
        return savepoint
    if any(each.name == name for each in tree.savepoints):
        return Refused(Code.ALREADY_EXISTS, f"the savepoint {name!r} of {tree.name!r} is of another snapshot")
    if len(tree.savepoints) >= MOST_SAVEPOINTS:
        detail = f"{tree.name!r} has {len(tree.savepoints)} savepoints, which is the most"
        return Refused(Code.TOO_MANY_REQUESTS, detail)
    return savepoint


def about_savepoint(savepoint: Savepoint) -> dict[str, Any]:
    """Return the members of an entry of the history that name a savepoint."""
    return {**_about(savepoint), "savepoint": savepoint.name}


def _drop_savepoint(view: View, store: Store, tree: Tree, request: DropSavepoint, context: DecisionContext) -> Decision:
    savepoints = tuple(savepoint for savepoint in tree.savepoints if savepoint.name != request.savepoint)
    if savepoints == tree.savepoints:
        return Refused(Code.NOT_EXIST, f"the tree of {store.name!r} has no savepoint {request.savepoint!r}")
    left = replace(tree, savepoints=savepoints, stale=bool(tree.manifests or tree.compacting))
    dropped = next(savepoint for savepoint in tree.savepoints if savepoint.name == request.savepoint)
    entered = history.act(view, request, SAVEPOINT_DROPPED, context, **about_savepoint(dropped))
    return replays.accepted(left, request, context, Answer(), changes=entered)


def _roll_back(view: View, store: Store, tree: Tree, request: RollBack, context: DecisionContext) -> Decision:
    """Roll the tree back to a revision. Savepoints stay, and a manifest that is being made will not be used.

    Later snapshots are marked as passed over. The current state becomes one more such snapshot, so that no file of it
    is dropped before the query has made as many new snapshots as a query keeps. The snapshot at the revision is the
    newest then, also if an earlier rollback passed it over or only a savepoint kept it. Each path in ``keep`` must
    exist now, and its directory must have existed at the revision. If the request also replaces the state of a handle,
    the handle must pass the checks of any other replace; if it does not, the tree stays unchanged, too.
    """
    if request.revision not in tree.kept:
        return Refused(
            Code.NOT_EXIST, f"the tree of {store.name!r} has no snapshot and no savepoint at {request.revision}"
        )
    if tree.range_tombstones or len(tree.rollbacks) >= MOST_ROLLBACKS:
        damaged = view.damaged_path(store.name)
        why = "is still being cleared away; try again later"
        if damaged is not None:
            why = f"is on record because of the damaged record {damaged}: restore that record"
        detail = f"what was deleted or rolled back before {why}"
        return Refused(Code.TOO_MANY_REQUESTS, detail, until_trimmed=damaged is None)
    for path in request.keep:
        parent = parent_of(path)
        record = view.path(store.name, parent)
        directory = visible_at(record, request.revision, store, tree) if isinstance(record, TreePath) else None
        if not isinstance(visible(view, store, tree, path), Entry) or (
            parent and not (directory and directory.directory)
        ):
            return Refused(
                Code.NOT_EXIST, f"{path!r} cannot be kept: it is not there, or had no directory at {request.revision}"
            )
    rollback = Rollback(request.revision, context.revision, request.keep)
    kept: tuple[TreeSnapshot | Savepoint, ...] = (*tree.savepoints, *tree.passed_over, *tree.snapshots)
    target = next(each for each in reversed(kept) if each.revision == request.revision)
    snapshots, others = _led_back(tree, target)
    back = replace(
        tree,
        rollbacks=(*tree.rollbacks, rollback),
        snapshots=snapshots,
        passed_over=(*others, *_as_it_is(tree, context.revision - 1))[-MOST_SNAPSHOTS:],
        compacting=0,
    )
    newest = max(tree.snapshots, key=lambda each: each.revision, default=None)
    entered = history.act(
        view,
        request,
        ROLLED_BACK,
        context,
        **_about(target),
        epoch=request.epoch or 0,
        previous=newest.revision if newest else 0,
        previous_batch=newest.batch if newest else None,
    )
    if request.replace is None:
        return replays.accepted(back, request, context, Answer({"revision": request.revision}), changes=entered)
    if dead := guards.session_lives(view, request.session, context):
        return dead
    replaced = replaced_handle(view, store, request.replace, context)
    if isinstance(replaced, Refused):
        return replaced
    answer = Answer({"revision": request.revision, "version": replaced.handle.version})
    changes = {handle_key(store.name, replaced.handle.name): replaced.handle, **replaced.changes, **entered}
    return replays.accepted(back, request, context, answer, changes=changes, discards=(replaced.old_blob,))


def _about(snapshot: TreeSnapshot | Savepoint) -> dict[str, Any]:
    """Return the members of an entry of the history that name a snapshot."""
    return {"snapshot": snapshot.revision, "batch": snapshot.batch, "directory": snapshot.directory}


def _led_back(
    tree: Tree, target: TreeSnapshot | Savepoint
) -> tuple[tuple[TreeSnapshot, ...], tuple[TreeSnapshot, ...]]:
    """Return the snapshots of a tree that is rolled back to ``target``, which is the newest of them, and those that are
    passed over.
    """
    revision = target.revision
    snapshots = tuple(each for each in tree.snapshots if each.revision <= revision)
    passed_over = tuple(each for each in tree.passed_over if each.revision != revision)
    later = tuple(each for each in tree.snapshots if each.revision > revision)
    if any(each.revision == revision for each in snapshots):
        return snapshots, (*passed_over, *later)
    if isinstance(target, Savepoint):
        target = TreeSnapshot(target.directory, target.batch, revision)
    # a tree has one snapshot for each batch of a query
    same = tuple(each for each in snapshots if (each.directory, each.batch) == (target.directory, target.batch))
    return (*(each for each in snapshots if each not in same), target), (*passed_over, *same, *later)


def _as_it_is(tree: Tree, revision: int) -> tuple[TreeSnapshot, ...]:
    """Return, as a tuple, a new snapshot of the tree at a revision, with the batch of the newest snapshot. Return an
    empty tuple if there is a snapshot at the revision already. A savepoint at the revision does not count, since it may
    be dropped.
    """
    if any(snapshot.revision == revision for snapshot in (*tree.snapshots, *tree.passed_over)):
        return ()
    # without snapshots, a release that left the target of a rollback out of them has rolled the tree back
    kept: tuple[TreeSnapshot | Savepoint, ...] = tree.snapshots or (*tree.savepoints, *tree.passed_over)
    last = max(kept, key=lambda each: (each.revision, each.batch))  # after a rename, several have one revision
    taken = last.taken if isinstance(last, TreeSnapshot) else ""
    return (TreeSnapshot(last.directory, last.batch, revision, taken),)


def _clone(view: View, store: Store, tree: Tree, request: CloneTree, context: DecisionContext) -> Decision:
    """Fill an empty tree with the files of the request's manifest, whose blobs are stored already.

    The request's snapshot becomes the first of the tree. If the request also adds a handle, the handle must pass the
    checks of any other add; if it does not, the tree stays empty, too.
    """
    path = next((record.path for record in view.paths(store.name, "")), None)
    if path is not None or tree.manifests or tree.kept or tree.range_tombstones or tree.rollbacks:
        there = f": it has {path!r}" if path is not None else ", or was not a short while ago"
        detail = f"the tree of {store.name!r} is not empty{there}; a clone begins one"
        return Refused(Code.NOT_EMPTY, detail, until_trimmed=_is_dead(view, store, tree))
    begun = replace(
        tree,
        manifests=() if request.manifest is None else (request.manifest,),
        snapshots=() if request.snapshot is None else (replace(request.snapshot, revision=context.revision),),
    )
    answer = Answer({"files": request.files, "bytes": request.bytes}, created=True)
    entered = history.act(
        view,
        request,
        CLONED,
        context,
        **(_about(begun.snapshots[0]) if begun.snapshots else {}),
        epoch=request.epoch or 0,
        source=request.original,
        files=request.files,
        bytes=request.bytes,
    )
    if request.add is None:
        return replays.accepted(begun, request, context, answer, changes=entered)
    if dead := guards.session_lives(view, request.session, context):
        return dead
    added = added_handle(view, store, request.add, context)
    if not isinstance(added, Added):
        return added
    answer = Answer({**answer.body, "version": added.handle.version}, created=True)
    changes = {handle_key(store.name, added.handle.name): added.handle, **added.changes, **entered}
    return replays.accepted(begun, request, context, answer, changes=changes, orphans=added.orphans)


def _is_dead(view: View, store: Store, tree: Tree) -> bool:
    """Return whether nothing in a tree can be visible any more: all entries are deleted, and there is no snapshot,
    savepoint or manifest.
    """
    if tree.manifests or tree.kept or view.damaged_path(store.name) is not None:
        return False
    try:
        return next(visible_below(view, store, tree, ""), None) is None
    except TooManyTombstones:
        return True


HANDLERS: Final[Handlers] = {
    MakeSavepoint: change_tree,
    DropSavepoint: change_tree,
    RollBack: change_tree,
    CloneTree: change_tree,
}

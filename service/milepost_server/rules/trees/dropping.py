"""Decide to drop a job: its handles, its files and their snapshots go in one commit, however many there are."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.history import DROPPED
from milepost_server.model.records import Corrupt, Store, Stored, handle_key, tree_key
from milepost_server.model.requests.base import StoreRequest
from milepost_server.model.requests.handles import DropJob
from milepost_server.model.trees import RangeTombstone, Tree
from milepost_server.rules import history, replays
from milepost_server.rules.answers import epoch_holder
from milepost_server.rules.decisions import Answer, Decision, DecisionContext, Handlers, Refused


def drop_job(view: View, request: DropJob, context: DecisionContext) -> Decision:
    """Drop a job: clear its handles, delete all its files, and drop its snapshots and savepoints.

    The session must hold the epoch, so that no driver leads the job, and none can begin before the drop. The record of
    the store stays, with its epoch: so the next epoch is greater than each of the dropped job, and the writes of its
    drivers are refused. The history stays, too, and so does a wish to stop: else a driver that stands by would
    begin the job anew. Maintenance drops the records of files and their blobs later.
    """
    store = view.store_or_new(request.store_name)
    if refused := is_held_by_another(view, store, request, "dropped"):
        return refused
    if damaged := content_is_readable(view, store.name):
        return damaged
    record = view.tree(store.name)
    assert not isinstance(record, Corrupt)
    tree = record or Tree(store.name)
    snapshots = {*tree.kept}
    answer = Answer({"handles": view.count(store), "snapshots": len(snapshots)})
    newest = max(tree.snapshots, key=lambda each: each.revision, default=None)
    about = {} if newest is None else {"batch": newest.batch, "directory": newest.directory}
    changes = {
        **emptied(view, store.name, context),
        **history.act(view, request, DROPPED, context, epoch=store.epoch, **about),
    }
    dropped = replace(store, cleared=context.revision, dropped=context.revision, wish=store.stopped)
    discards = tuple(manifest.blob for manifest in tree.manifests)
    return replays.accepted(dropped, request, context, answer, changes=changes, discards=discards)


def is_held_by_another(view: View, store: Store, request: StoreRequest, what: str) -> Refused | None:
    """Refuse a request whose session does not hold the epoch. ``what`` says what is done to the job."""
    holder = epoch_holder(view, store)
    if holder is not None and holder.id == request.session:
        return None
    who = "no session holds it" if holder is None else f"session {holder.id!r} ({holder.holder}) holds it"
    return Refused(
        Code.FENCED,
        f"a job is {what} under its epoch, {store.epoch} of {store.name!r}: {who}",
        {"current": store.epoch, "holder": None if holder is None else holder.holder},
    )


def content_is_readable(view: View, store: str) -> Refused | None:
    """Refuse to drop a job with damaged records of files: a deletion of unknown files would never end, since a record
    may be put back.
    """
    record = view.tree(store)
    damaged = record.name if isinstance(record, Corrupt) else view.damaged_path(store)
    if damaged is None:
        return None
    return Refused(Code.CORRUPT, f"the record {damaged} of the files of {store!r} is damaged: repair it first")


def emptied(view: View, store: str, context: DecisionContext) -> dict[str, Stored | None]:
    """Return the changes by which a store has no files, snapshots, savepoints and unreadable handles any more; all
    other handles go once the store's own record is cleared.
    """
    changes: dict[str, Stored | None] = {handle_key(store, name): None for name in view.damaged(store)}
    tree = view.tree(store)
    if isinstance(tree, Tree) or next(view.paths(store, ""), None) is not None:
        changes[tree_key(store)] = replace(
            tree if isinstance(tree, Tree) else Tree(store),
            snapshots=(),
            savepoints=(),
            passed_over=(),
            range_tombstones=(RangeTombstone("", context.revision),),
            manifests=(),
            compacting=0,
            stale=False,
        )
    return changes


HANDLERS: Final[Handlers] = {DropJob: drop_job}

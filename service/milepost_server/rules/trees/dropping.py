"""Decide to drop a job: its handles, its files and their snapshots go in one commit, however many there are."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.history import DROPPED
from milepost_server.model.records import Corrupt, Stored, handle_key, tree_key
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
    holder = epoch_holder(view, store)
    if holder is None or holder.id != request.session:
        who = "no session holds it" if holder is None else f"session {holder.id!r} ({holder.holder}) holds it"
        return Refused(
            Code.FENCED,
            f"a job is dropped under its epoch, {store.epoch} of {store.name!r}: {who}",
            {"current": store.epoch, "holder": None if holder is None else holder.holder},
        )
    record = view.tree(store.name)
    damaged = record.name if isinstance(record, Corrupt) else view.damaged_path(store.name)
    if isinstance(record, Corrupt) or damaged is not None:
        # a deletion of unknown files would never end, since the record may be put back
        return Refused(Code.CORRUPT, f"the record {damaged} of the files of {store.name!r} is damaged: repair it first")
    tree = record or Tree(store.name)
    snapshots = {*tree.kept}
    answer = Answer({"handles": view.count(store), "snapshots": len(snapshots)})
    newest = max(tree.snapshots, key=lambda each: each.revision, default=None)
    about = {} if newest is None else {"batch": newest.batch, "directory": newest.directory}
    changes: dict[str, Stored | None] = {
        **{handle_key(store.name, name): None for name in view.damaged(store.name)},
        **history.act(view, request, DROPPED, context, epoch=store.epoch, **about),
    }
    if record is not None or next(view.paths(store.name, ""), None) is not None:
        changes[tree_key(store.name)] = replace(
            tree,
            snapshots=(),
            savepoints=(),
            passed_over=(),
            range_tombstones=(RangeTombstone("", context.revision),),
            manifests=(),
            compacting=0,
            stale=False,
        )
    dropped = replace(store, cleared=context.revision, dropped=context.revision, wish=store.stopped)
    discards = tuple(manifest.blob for manifest in tree.manifests)
    return replays.accepted(dropped, request, context, answer, changes=changes, discards=discards)


HANDLERS: Final[Handlers] = {DropJob: drop_job}

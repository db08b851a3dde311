"""Decide the steps by which a job is moved from one cell to another (docs/decisions/0124).

The tombstone that `end_departure` sets decides: before it, the job is in the old cell; after it, in the new one.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model import history as kinds
from milepost_server.model.history import ACTS, BATCHES, page_key
from milepost_server.model.moves import ARRIVING, CLEARING, LEAVING, MOVED, Move, sealed
from milepost_server.model.records import (
    DEPLOYMENT_KEY,
    Corrupt,
    Deployment,
    Handle,
    Store,
    Stored,
    store_key,
    tree_key,
)
from milepost_server.model.requests.moves import (
    BeginArrival,
    BeginDeparture,
    DropLeft,
    EndDeparture,
    FinishArrival,
    ImportRecords,
)
from milepost_server.model.trees import Tree, TreePath
from milepost_server.rules import history
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers, Refused
from milepost_server.rules.trees.dropping import content_is_readable, emptied, is_held_by_another


def begin_departure(view: View, request: BeginDeparture, _: DecisionContext) -> Decision:
    """Freeze a job, as long as the session that makes the request holds its epoch.

    There is one move under an epoch: its copy knows the seal that was drawn for it. If another move came between, a
    late request of the first would have another seal drawn, and a tombstone with that one could never be followed.
    """
    store = view.store_or_new(request.store_name)
    if refused := _is_no_cell(view, request.to) or is_held_by_another(view, store, request, "moved"):
        return refused
    if damaged := _is_damaged(view, store.name):
        return damaged
    if store.elsewhere is not None:
        return _of_another_move(store)
    move = Move(LEAVING, request.id, request.to, store.epoch, seal=request.seal)
    if store.move is not None and replace(store.move, seal=request.seal) == move:
        return Accepted(Answer())
    if store.move is not None and store.move.epoch == store.epoch:
        return _of_another_move(store)
    return Accepted(Answer(), {store_key(store.name): store.moving(move)})


def end_departure(view: View, request: EndDeparture, context: DecisionContext) -> Decision:
    """Set the tombstone, and drop all that the job has here. The number of the epoch stays, so that late drivers are
    fenced.

    The session must hold the epoch: once it has ended, the job takes what needs no epoch, and its copy may lack that.
    """
    store = view.store_or_new(request.store_name)
    move = store.move
    if move is None or move.id != request.id or move.phase == ARRIVING:
        return _of_another_move(store)
    if move.phase == MOVED:
        return Accepted(Answer())
    if refused := is_held_by_another(view, store, request, "moved"):
        return refused
    if damaged := _is_damaged(view, store.name):
        return damaged
    tree = view.tree(store.name)
    gone = store.moving(
        replace(move, phase=MOVED),
        cleared=context.revision,
        locked=(),
        released=(),
        answered=(),
        epoch_session=None,
        epoch_session_created=0,
        epoch_since=None,
        wish=None,
    )
    changes = {store_key(store.name): gone, **emptied(view, store.name, context), **_without_history(view, store.name)}
    discards = tuple(manifest.blob for manifest in tree.manifests) if isinstance(tree, Tree) else ()
    return Accepted(Answer(), changes, discards=discards)


def begin_arrival(view: View, request: BeginArrival, context: DecisionContext) -> Decision:
    """Begin a copy of the job, which is still in the old cell. What is left here of an earlier stay or copy is dropped
    first: its revisions may be those of the job now, so it could not be told from what arrives.

    The epoch must be above each that this cell knows of the job. Else a late request of an earlier mover could replace
    the copy that a tombstone names already.
    """
    name = request.store_name
    old, tree = view.store(name), view.tree(name)
    if refused := _is_no_cell(view, request.source):
        return refused
    if isinstance(old, Store):
        move = old.move
        if move is not None and (move.phase, move.id) == (ARRIVING, request.id):
            return Accepted(Answer())
        if old.elsewhere is None:
            return Refused(Code.ALREADY_EXISTS, f"the job {name!r} is in this cell")
        is_clearing = move is not None and (move.phase, move.id) == (CLEARING, request.id)
        if request.under <= old.epoch and not is_clearing:
            detail = f"the job {name!r} was moved under epoch {old.epoch}, and epoch {request.under} is not above that"
            return Refused(Code.FENCED, detail, {"current": old.epoch})
        if is_clearing and _is_left(view, name):
            return Accepted(Answer())
    if isinstance(tree, Corrupt):
        return Refused(Code.CORRUPT, f"the record of the tree of {name!r} is damaged: {tree.reason}")
    departing = request.departing
    move = Move(ARRIVING, request.id, request.source, request.under, departing.revision, departing.sealed)
    arriving = Store(
        name,
        epoch=request.under,
        granted=departing.granted,
        dropped=departing.dropped,
        wish=departing.wish,
        evicted_answers_at=context.revision,
    )
    pages = _without_history(view, name)
    if isinstance(old, Store) and (old.move is None or old.move.phase == ARRIVING or _is_left(view, name)):
        # the handles of an abandoned copy have revisions of the old cell, which may be higher than those of this one
        newest = 0 if old.move is None else old.move.newest
        cleared = max(context.revision, old.cleared, newest)
        clearing = arriving.moving(replace(move, phase=CLEARING), cleared=cleared)
        discards = () if tree is None else tuple(manifest.blob for manifest in tree.manifests)
        changes = {store_key(name): clearing, **emptied(view, name, context), **pages}
        return Accepted(Answer(), changes, discards=discards)
    begun: dict[str, Stored | None] = {store_key(name): arriving.moving(move), **pages}
    return Accepted(Answer(), {**begun, tree_key(name): None} if tree is not None else begun)


def _is_left(view: View, store: str) -> bool:
    """Return whether there are records of handles, or of files, that a job has left here."""
    files = next(view.paths(store, ""), None) is not None or view.damaged_path(store) is not None
    return files or view.state.has_cleared(store)


def drop_left(view: View, request: DropLeft, _: DecisionContext) -> Decision:
    """Drop records of handles and files that a job has left here. Their blobs are named by no other record."""
    store = view.store(request.store_name)
    if not isinstance(store, Store) or store.move is None or store.move.phase not in (MOVED, CLEARING):
        return Accepted(Answer())
    changes: dict[str, Stored | None] = {}
    discards: list[str] = []
    for key in request.keys:
        record = view.get(key)
        if isinstance(record, Handle) and record.created_revision <= store.cleared:
            discards += [record.blob] if record.blob and not record.gone else []
        elif isinstance(record, TreePath):
            discards += record.blobs
        elif not isinstance(record, Corrupt):
            continue
        changes[key] = None
    return Accepted(Answer(), changes, discards=tuple(dict.fromkeys(discards)))


def import_records(view: View, request: ImportRecords, context: DecisionContext) -> Decision:
    """Write records of the copy. Answers to earlier requests are not copied, so a retry of one is refused for as long
    as answers are kept.
    """
    store = view.store_or_new(request.store_name)
    if store.move is None or (store.move.phase, store.move.id) != (ARRIVING, request.id):
        return _of_another_move(store)
    changes: dict[str, Stored | None] = {}
    for key, record in request.records.items():
        if isinstance(record, Tree):
            old = view.tree(store.name)
            manifests = old.manifests if isinstance(old, Tree) else ()  # of records that arrived before
            record = replace(record, manifests=manifests)
        known = hasattr(record, "evicted_answers_at")
        changes[key] = replace(record, evicted_answers_at=context.revision) if known else record
    if request.complete:
        changes[store_key(store.name)] = store.moving(replace(store.move, complete=True))
    return Accepted(Answer(), changes)


def finish_arrival(view: View, request: FinishArrival, context: DecisionContext) -> Decision:
    """Let the job be here. The seal proves that the old cell has its tombstone, which alone tells it.

    A mover asks for the tombstone of a complete copy only. So one that is not complete is an older one, which somebody
    has put back.
    """
    store = view.store(request.store_name)
    if not isinstance(store, Store):
        return Refused(Code.NOT_EXIST, f"no job {request.store_name!r} is being moved here")
    if store.elsewhere is None:
        return Accepted(Answer())
    if store.move is None or store.move.phase != ARRIVING or store.move.seal != sealed(request.seal):
        return _of_another_move(store)
    if not store.move.complete:
        detail = (
            f"the copy of {store.name!r} here is not complete: it is older than the tombstone in {store.move.cell!r}"
        )
        return Refused(Code.FENCED, detail, {"current": store.epoch})
    told = history.act(view, request, kinds.MOVED, context, source=store.move.cell, epoch=store.move.epoch)
    return Accepted(Answer(), {store_key(store.name): store.moving(None), **told})


def _is_damaged(view: View, store: str) -> Refused | None:
    """Refuse to move a job with damaged records, which could not be copied."""
    if damaged := content_is_readable(view, store):
        return damaged
    if view.damaged(store):
        return Refused(Code.CORRUPT, f"{store!r} has a handle whose record is damaged: repair it first")
    return None


def _is_no_cell(view: View, other: str) -> Refused | None:
    """Refuse a move if this deployment is no cell, or the other one is none of the others."""
    deployment = view.get(DEPLOYMENT_KEY)
    if not isinstance(deployment, Deployment) or not deployment.cell:
        return Refused(Code.CELLS_DIFFER, "this deployment is not one of several cells")
    if other == deployment.cell or other not in deployment.cells:
        names = ", ".join(deployment.cells)
        detail = f"{other!r} is not another cell than {deployment.cell!r}, of {names}"
        return Refused(Code.CELLS_DIFFER, detail, {"cell": deployment.cell, "cells": list(deployment.cells)})
    return None


def _of_another_move(store: Store) -> Refused:
    move = store.move
    detail = f"the job {store.name!r} is not in this move"
    if move is not None:
        detail = f"{detail}, but in another, {move.phase} under epoch {move.epoch}"
    return Refused(Code.FENCED, detail, {"current": store.epoch})


def _without_history(view: View, store: str) -> dict[str, Stored | None]:
    return {page_key(store, log, number): None for log in (ACTS, BATCHES) for number in view.history_pages(store, log)}


HANDLERS: Final[Handlers] = {
    BeginDeparture: begin_departure,
    EndDeparture: end_departure,
    BeginArrival: begin_arrival,
    DropLeft: drop_left,
    ImportRecords: import_records,
    FinishArrival: finish_arrival,
}

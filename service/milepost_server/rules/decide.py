"""Decide a request. The function `decide` is the only entry point of the rules."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost.wire import Code, Outcome
from milepost_server.memory.lookup import ManifestsNotLoaded
from milepost_server.memory.view import View
from milepost_server.model.records import Corrupt, Handle, Session, Store, store_key
from milepost_server.model.requests.base import HandleRequest, Keeper, Request
from milepost_server.model.requests.handles import LockAll, PlaceJob, Remove
from milepost_server.model.requests.moves import BeginArrival, MoveRequest
from milepost_server.model.requests.trees import PutFile
from milepost_server.model.trees import Tree, TreePath
from milepost_server.rules import epochs, guards, history, moves, replays, restored_history
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Inventory, Refused
from milepost_server.rules.handlers import handles, sessions, stores
from milepost_server.rules.trees import dropping, maintenance, snapshots
from milepost_server.rules.trees import handlers as trees

HANDLERS: Final = {
    **handles.HANDLERS,
    **stores.HANDLERS,
    **epochs.HANDLERS,
    **moves.HANDLERS,
    **sessions.HANDLERS,
    **trees.HANDLERS,
    **snapshots.HANDLERS,
    **dropping.HANDLERS,
    **history.HANDLERS,
    **restored_history.HANDLERS,
    **maintenance.HANDLERS,
}


def decide(view: View, request: Request, context: DecisionContext) -> Decision:
    """Return the decision on ``request``, given the records in ``view`` and the facts and limits in ``context``.
    Nothing is changed.
    """
    seen = view.fresh()
    try:
        decision = _decided(seen, request, context)
    except ManifestsNotLoaded as error:
        decision = Refused(Code.STORAGE_UNAVAILABLE, f"{error}; try again later")
    return replace(decision, depends=seen.depends) if seen.depends else decision


def _decided(view: View, request: Request, context: DecisionContext) -> Decision:
    """Decide a request, in a fixed order of checks.

    First come the owner of the request's session, a replay of a known idempotency key, its session, the record of its
    store, and its epoch. Then the handler of the request's class decides. Last, if the first answer to a retry may have
    been dropped, `refuse_unsafe_retry` decides. The leader's own requests go directly to their handler.
    """
    if request.by_leader:
        return HANDLERS[type(request)](view, request, context)
    if request.attempt.client is not None and (foreign := guards.session_is_callers(view, request.attempt, context)):
        return foreign
    if (known := replays.first_answer(view, request)) is not None:
        return _complete_replay(view, request, known)
    session, name = request.attempt.session, request.store
    names_one = session != "" and name is not None
    refused = guards.session_lives(view, session, context) if request.needs_session or names_one else None
    store: Store | Corrupt | None = None
    if name is not None and refused is None:
        store = view.store(name)
        refused = _refusal(view, request, name, store, context)
    decision = refused or HANDLERS[type(request)](view, request, context)
    if request.attempt.number > 1:
        decision = replays.refuse_unsafe_retry(decision, request, _evicted_answers_at(view, request), context)
    return decision if name is None or store is not None else _with_store(view, name, request, decision, context)


def _refusal(
    view: View, request: Request, name: str, store: Store | Corrupt | None, context: DecisionContext
) -> Refused | None:
    """Return the refusal of a request because of the record of its store, its cell, or its epoch, in this order; None
    if all permit it.
    """
    if type(store) is Corrupt:
        return guards.store_readable(view, name)
    moves = store is not None and store.move is not None and not isinstance(request, MoveRequest)
    if moves and store is not None and (elsewhere := guards.is_elsewhere(store)) is not None:
        # the first attempt may have been applied before the job was moved, and its answer did not move
        return replace(elsewhere, outcome=Outcome.UNKNOWN) if request.attempt.number > 1 else elsewhere
    if request.fenced and (fenced := guards.epoch_is_current(store or Store(name), request.epoch, context.epoch_floor)):
        return fenced
    return guards.is_not_frozen(view, store, request) if moves and store is not None else None


def _with_store(view: View, store: str, request: Request, decision: Decision, context: DecisionContext) -> Decision:
    """Add a new record of the store to the changes of the first request that changes something in it: so the store
    exists from then on. Return the refusal of such a request if the store may not begin here.
    """
    if not isinstance(decision, Accepted) or not (decision.changes or context.dry):
        return decision
    key = store_key(store)
    if view.get(key) is not None:
        return decision
    cells = request.cells if isinstance(request, PlaceJob) else None
    if isinstance(request, BeginArrival):
        return decision
    if refused := guards.store_may_begin(view, store, cells):
        return refused
    if context.dry or key in decision.changes:
        return decision
    return replace(decision, changes={key: view.store_or_new(store), **decision.changes})


def _evicted_answers_at(view: View, request: Request) -> int:
    """Return the revision of the newest answer that was dropped, to make room, from the record that keeps the answer to
    this request; 0 if none was dropped.
    """
    store = request.store or ""
    record: Session | Store | Handle | Tree | TreePath | Corrupt | None
    match request.keeper:
        case Keeper.NONE:
            return 0
        case Keeper.SESSION:
            record = view.session(request.session)
        case Keeper.STORE:
            record = view.store(store)
        case Keeper.HANDLE:
            assert isinstance(request, HandleRequest)
            record = view.handle(store, request.name)
        case Keeper.TREE:
            record = view.tree(store)
        case Keeper.PATH:
            assert isinstance(request, PutFile)
            record = view.path(store, request.path)
    return 0 if record is None or isinstance(record, Corrupt) else record.evicted_answers_at


def _complete_replay(view: View, request: Request, known: Accepted | Refused) -> Decision:
    """Return the decision for a repeated request from ``known``, the answer that was kept of its first attempt.

    For `LockAll`, this adds the list of handles, which is too long to be kept. For `Remove`, it also finishes the
    removal, if the first attempt did not.
    """
    if not isinstance(known, Accepted):
        return known
    if isinstance(request, LockAll):
        if damaged := guards.store_readable(view, request.store_name):
            return Refused(damaged.code, damaged.detail, outcome=Outcome.APPLIED)
        return Accepted(Answer(replayed=True), inventory=Inventory(request.store_name))
    if isinstance(request, Remove):
        handle = view.handle(request.store_name, request.name)
        if isinstance(handle, Handle) and handle.removing:
            return Accepted(known.answer, finish=handles.finish_of(view.store_or_new(request.store_name), handle))
    return known

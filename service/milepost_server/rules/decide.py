"""Decide a request: this is the only way into the rules."""

from __future__ import annotations

from dataclasses import replace

from milepost.wire import Code, Outcome
from milepost_server.rules import guards, replays
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Inventory, Refused
from milepost_server.rules.handlers import handles, sessions, stores, uploads
from milepost_server.rules.memory.lookup import ManifestsNotLoaded
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import Handle, Session, Store, store_key
from milepost_server.rules.requests import (
    Add,
    BeginCompaction,
    Campaign,
    Clear,
    CloneTree,
    CompactTree,
    CreateDeployment,
    CreateUpload,
    DropBlobs,
    DropCompacted,
    DropSavepoint,
    EndSession,
    ExpireSession,
    ExpireUpload,
    FinishRemoval,
    HandleRequest,
    LockAll,
    LockHandle,
    MakeSavepoint,
    OpenSession,
    PutFile,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Replace,
    Request,
    Resign,
    RollBack,
    Scrub,
    StoreRequest,
    TreeRequest,
    TrimTree,
)
from milepost_server.rules.stored.trees import Tree, TreePath
from milepost_server.rules.trees import handlers as trees
from milepost_server.rules.trees import maintenance, snapshots


def decide(view: View, request: Request, context: DecisionContext) -> Decision:
    """Return what happens if ``request`` is applied on top of ``view`` in ``context``. Nothing is changed by it."""
    seen = view.fresh()
    decision = _decided(seen, request, context)
    return replace(decision, depends=seen.depends) if seen.depends else decision


def _decided(view: View, request: Request, context: DecisionContext) -> Decision:
    """Judge a request, in a fixed order.

    First come the leader's own requests, whose session it is, a replay of a known key, the session, the store's record,
    the epoch; then the operation's own rules; at last, whether a retry is safe whose first answer may be forgotten. The
    files of a tree are written without a session, by whoever has the epoch, and each act on them may be made twice.
    """
    match request:
        case CreateDeployment():
            return sessions.found(view, request)
        case ExpireSession():
            return sessions.expire_session(view, request, context)
        case ExpireUpload():
            return uploads.expire_upload(view, request, context)
        case Scrub():
            return stores.scrub(view, request, context)
        case TrimTree() | BeginCompaction() | CompactTree() | DropCompacted() | DropBlobs():
            return _maintenance_of_tree(view, _store(view, request.store_name), request, context)
        case FinishRemoval():
            return handles.finish_removal(view, _store(view, request.store_name), request, context)
        case _:
            pass
    if foreign := guards.session_is_callers(view, request.attempt, context):
        return foreign
    if (known := replays.first_answer(view, request)) is not None:
        return complete_replay(view, request, known)
    if isinstance(request, TreeRequest | MakeSavepoint | DropSavepoint):
        return _of_tree(view, request, context)
    if isinstance(request, OpenSession):
        evicted_answers_at = sessions.evicted_answers_of(view.session(request.session))
        return replays.refuse_unsafe_retry(
            sessions.open_session(view, request, context), request, evicted_answers_at, context
        )
    if not isinstance(request, StoreRequest):
        return _by_the_living(view, request, context)
    store = _store(view, request.store_name)
    decision = _by_the_living(view, request, context)
    return _with_store(
        view, store, replays.refuse_unsafe_retry(decision, request, _evicted_answers_at(view, store, request), context)
    )


def _by_the_living(view: View, request: Request, context: DecisionContext) -> Decision:
    if dead := guards.session_lives(view, request.session, context):
        return dead
    session = view.session(request.session)
    assert isinstance(session, Session)
    if isinstance(request, EndSession):
        return sessions.end_session(session, request, context)
    assert isinstance(request, StoreRequest)
    if damaged := guards.store_readable(view, request.store_name):
        return damaged
    return _store_indexes(view, _store(view, request.store_name), session, request, context)


def _of_tree(view: View, request: TreeRequest | MakeSavepoint | DropSavepoint, context: DecisionContext) -> Decision:
    if damaged := guards.store_readable(view, request.store_name):
        return damaged
    store = _store(view, request.store_name)
    try:
        if isinstance(request, MakeSavepoint | DropSavepoint | RollBack | CloneTree):
            if request.session and (dead := guards.session_lives(view, request.session, context)):
                return dead
            decision = snapshots.decide(view, store, request, context)
            return _with_store(
                view,
                store,
                replays.refuse_unsafe_retry(decision, request, _evicted_answers_at(view, store, request), context),
            )
        decision = trees.decide(view, store, request, context)
        return _with_store(
            view,
            store,
            replays.refuse_unsafe_retry(decision, request, _evicted_answers_at(view, store, request), context),
        )
    except ManifestsNotLoaded as error:
        return Refused(Code.STORAGE_UNAVAILABLE, f"{error}; try again later")


def _maintenance_of_tree(
    view: View,
    store: Store,
    request: TrimTree | BeginCompaction | CompactTree | DropCompacted | DropBlobs,
    context: DecisionContext,
) -> Decision:
    try:
        match request:
            case TrimTree():
                return maintenance.trim(view, store, request)
            case BeginCompaction():
                return maintenance.begin_compaction(view, store, context)
            case CompactTree():
                return maintenance.compact(view, store, request)
            case DropCompacted():
                return maintenance.drop_compacted(view, store, request)
            case DropBlobs():
                return maintenance.drop_blobs(view, store, request)
    except ManifestsNotLoaded as error:
        return Refused(Code.STORAGE_UNAVAILABLE, f"{error}; maintenance goes on once it is")


def _store_indexes(
    view: View, store: Store, session: Session, request: StoreRequest, context: DecisionContext
) -> Decision:
    if isinstance(request, Add | Replace | Remove | Clear) and (
        fenced := guards.epoch_is_current(store, request.epoch, context.epoch_floor)
    ):
        return fenced
    match request:
        case Add():
            return handles.add(view, store, session, request, context)
        case Replace():
            return handles.replace_state(view, store, session, request, context)
        case Remove():
            return handles.remove(view, store, session, request, context)
        case LockHandle():
            return handles.lock(view, store, session, request, context)
        case ReleaseHandle():
            return handles.release(view, store, session, request, context)
        case LockAll():
            return stores.lock_all(view, store, session, request, context)
        case ReleaseAll():
            return stores.release_all(view, store, session, request, context)
        case Clear():
            return stores.clear(view, store, request, context)
        case CreateUpload():
            return uploads.create_upload(view, store, session, request, context)
        case Campaign():
            return stores.campaign(view, store, session, request, context)
        case Resign():
            return stores.resign(view, store, session, request, context)
    raise TypeError(f"no rule for {type(request).__name__}")


def _store(view: View, name: str) -> Store:
    record = view.store(name)
    return record if isinstance(record, Store) else Store(name)


def _with_store(view: View, store: Store, decision: Decision) -> Decision:
    """Add the store's record to its first change: a store exists from its first change on."""
    key = store_key(store.name)
    if isinstance(decision, Accepted) and decision.changes and key not in decision.changes and view.get(key) is None:
        return Accepted(
            decision.answer,
            {key: store, **decision.changes},
            decision.discards,
            decision.orphans,
            decision.finish,
            decision.inventory,
        )
    return decision


def _evicted_answers_at(view: View, store: Store, request: StoreRequest) -> int:
    if isinstance(request, HandleRequest):
        return handles.evicted_answers_of(view.handle(store.name, request.name))
    if isinstance(request, CreateUpload):
        return 0  # each upload keeps its own answer, and no other
    if isinstance(request, MakeSavepoint | DropSavepoint | RollBack | CloneTree):
        tree = view.tree(store.name)
        return tree.evicted_answers_at if isinstance(tree, Tree) else 0
    if isinstance(request, PutFile):
        record = view.path(store.name, request.path)
        return record.evicted_answers_at if isinstance(record, TreePath) else 0
    if isinstance(request, TreeRequest):
        return 0  # it does no more the second time
    return store.evicted_answers_at


def complete_replay(view: View, request: Request, known: Accepted | Refused) -> Decision:
    """Complete a replay whose first answer is not whole: a removal that is not finished, or a listing too large to
    keep.
    """
    if not isinstance(known, Accepted) or not isinstance(request, StoreRequest):
        return known
    store = _store(view, request.store_name)
    if isinstance(request, LockAll):
        if damaged := guards.store_readable(view, request.store_name):
            return Refused(damaged.code, damaged.detail, outcome=Outcome.APPLIED)
        return Accepted(Answer(replayed=True), inventory=Inventory(store.name))
    if isinstance(request, Remove):
        handle = view.handle(request.store_name, request.name)
        if isinstance(handle, Handle) and handle.removing:
            return Accepted(known.answer, finish=handles.finish_of(store, handle))
    return known

"""Decide requests about whole stores: place, lock all, release all, clear, and drop old records."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from milepost_server.memory.lookup import Lookup
from milepost_server.memory.view import View
from milepost_server.model.records import (
    Corrupt,
    Handle,
    Record,
    Session,
    Store,
    Upload,
    handle_key,
    store_key,
    store_of,
)
from milepost_server.model.requests.handles import Clear, LockAll, PlaceJob, ReleaseAll, Scrub
from milepost_server.rules import locks, replays
from milepost_server.rules.answers import handle_body
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers, Inventory
from milepost_server.rules.handlers.handles import absent, present


def lock_all(view: View, request: LockAll, context: DecisionContext) -> Decision:
    """Lock every handle of the store for the session (Flink's getAllAndLock).

    The store's own record holds this lock for all handles, and the answer is assembled after the commit. A replay shows
    the handles at the time of the replay, since the first answer is too large to be kept.
    """
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    changed = replace(
        store,
        locked=locks.with_all_locked(view, store, session, context.revision),
        released=locks.living(view, store.released),
    )
    return replays.accepted(changed, request, context, Answer(), inventory=Inventory(store.name))


def release_all(view: View, request: ReleaseAll, context: DecisionContext) -> Decision:
    """Release every lock of the session in this store (Flink's releaseAll)."""
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    changed = replace(
        store,
        locked=tuple(lock for lock in locks.living(view, store.locked) if lock.session != session.id),
        released=locks.with_all_released(view, store, session, context.revision),
    )
    return replays.accepted(changed, request, context, Answer())


def clear(view: View, request: Clear, context: DecisionContext) -> Decision:
    """Remove all handles, including those that sessions hold (Flink's clearEntries); the garbage collector deletes the
    blobs.
    """
    store = view.store_or_new(request.store_name)
    count = view.count(store)
    if not count:
        return Accepted(Answer({"cleared": 0}))
    damaged = {handle_key(store.name, name): None for name in view.damaged(store.name)}
    cleared = replace(store, cleared=context.revision)
    return replays.accepted(cleared, request, context, Answer({"cleared": count}), changes=damaged)


def place(view: View, request: PlaceJob, _: DecisionContext) -> Decision:
    """Begin the store in this cell, if it does not exist. `decide` compares the lists of cells."""
    store = view.store(request.store_name)
    if store is not None:
        return Accepted(Answer())
    return Accepted(Answer(), {store_key(request.store_name): view.store_or_new(request.store_name)})


def inventory_entry(view: Lookup, store: Store, name: str) -> dict[str, Any] | Corrupt | None:
    """Return what the list of all handles of a store shows for a name: the handle as JSON, or its damaged record; None
    if the name has no handle that clients can read.
    """
    record = view.handle(store.name, name)
    if isinstance(record, Corrupt):
        return record
    handle = present(store, record)
    return None if handle is None else handle_body(view, store, handle)


def scrub(view: View, request: Scrub, context: DecisionContext) -> Decision:
    """Drop those of the request's records that may be dropped now. The blobs of cleared handles become
    `Accepted.orphans`.
    """
    changes: dict[str, None] = {}
    orphans: list[str] = []
    for key in request.keys:
        record = view.get(key)
        if record is not None and _droppable(view, key, record, context):
            changes[key] = None
            if isinstance(record, Handle) and not record.gone:
                orphans.append(record.blob)
    return Accepted(Answer(), changes, orphans=tuple(orphans))


def _droppable(view: View, key: str, record: Record, context: DecisionContext) -> bool:
    """Return whether the record under ``key`` may be dropped: what it describes has ended, and it keeps no answer that
    a retry may need.
    """
    match record:
        case Handle():
            store = view.store(store_of(key) or "")
            if not isinstance(store, Store) or not absent(store, record):
                return False
            return (record.changed if record.gone else store.cleared) <= context.keys_horizon
        case Session():
            return 0 < record.ended <= context.sessions_horizon
        case Upload():
            return bool(record.ended) and record.created_revision <= context.keys_horizon
        case _:
            return False


HANDLERS: Final[Handlers] = {
    LockAll: lock_all,
    ReleaseAll: release_all,
    Clear: clear,
    PlaceJob: place,
    Scrub: scrub,
}

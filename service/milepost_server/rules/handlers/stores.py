"""Decide acts on a whole store, each of which writes one record: lock all, release all, clear."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from milepost_server.rules import locks, replays
from milepost_server.rules.answers import handle_body
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers, Inventory
from milepost_server.rules.handlers.handles import present
from milepost_server.rules.memory.lookup import Lookup
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import (
    Corrupt,
    Store,
    handle_key,
    store_key,
)
from milepost_server.rules.requests import Clear, LockAll, ReleaseAll, StoreRequest


def lock_all(view: View, request: LockAll, context: DecisionContext) -> Decision:
    """Lock every handle of the store for the session (Flink's getAllAndLock).

    One record says so for all of them, and the answer is put together once it has been committed. A replay shows what
    is there then, since the answer is too large to be kept.
    """
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    changed = replace(
        store,
        locked=locks.with_all_locked(view, store, session, context.revision),
        released=locks.living(view, store.released),
    )
    accepted = _written(changed, request, context, Answer())
    return Accepted(accepted.answer, accepted.changes, inventory=Inventory(store.name))


def release_all(view: View, request: ReleaseAll, context: DecisionContext) -> Decision:
    """Release every lock of the session in this store (Flink's releaseAll)."""
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    changed = replace(
        store,
        locked=tuple(lock for lock in locks.living(view, store.locked) if lock.session != session.id),
        released=locks.with_all_released(view, store, session, context.revision),
    )
    return _written(changed, request, context, Answer())


def clear(view: View, request: Clear, context: DecisionContext) -> Decision:
    """Remove all pointers, whoever holds them (Flink's clearEntries); the blobs stay for the collector."""
    store = view.store_or_new(request.store_name)
    count = view.count(store)
    if not count:
        return Accepted(Answer({"cleared": 0}))
    damaged = {handle_key(store.name, name): None for name in view.damaged(store.name)}
    accepted = _written(replace(store, cleared=context.revision), request, context, Answer({"cleared": count}))
    return Accepted(accepted.answer, {**damaged, **accepted.changes})


def inventory_entry(view: Lookup, store: Store, name: str) -> dict[str, Any] | Corrupt | None:
    """Return what an inventory shows for a name: the handle's record, the damaged one, or None."""
    record = view.handle(store.name, name)
    if isinstance(record, Corrupt):
        return record
    handle = present(store, record)
    return None if handle is None else handle_body(view, store, handle)


def _written(store: Store, request: StoreRequest, context: DecisionContext, answer: Answer) -> Accepted:
    kept = replays.remember(store, request, context, answer)
    return Accepted(answer, {store_key(store.name): kept})


HANDLERS: Final[Handlers] = {
    LockAll: lock_all,
    ReleaseAll: release_all,
    Clear: clear,
}

"""Operations on a store as a whole, and the list of stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.leader import Replica
from service.operations.calls import Caller, Reply, perform
from service.rules.handles import absent
from service.rules.records import Handle, Store
from service.rules.requests import Clear, LockAll, ReleaseAll


@dataclass(frozen=True, slots=True)
class StorePage:
    """A page of the stores, by name."""

    stores: list[dict[str, Any]]
    next: str | None
    term: int


async def lock_all(replica: Replica, caller: Caller, store: str) -> Reply:
    """getAllAndLock."""
    return await perform(replica, LockAll(caller.session, caller.key, caller.attempt, store))


async def release_all(replica: Replica, caller: Caller, store: str) -> Reply:
    """releaseAll."""
    return await perform(replica, ReleaseAll(caller.session, caller.key, caller.attempt, store))


async def clear(replica: Replica, caller: Caller, store: str) -> Reply:
    """clearEntries."""
    return await perform(replica, Clear(caller.session, caller.key, caller.attempt, store, caller.epoch))


def list_stores(replica: Replica, after: str, limit: int) -> StorePage:
    """The stores that exist, with the number of their handles and their epoch."""
    reading = replica.journal.read()
    state = reading.view.state
    found: list[dict[str, Any]] = []
    for name in state.stores(after):
        if len(found) == limit:
            return StorePage(found, found[-1]["store"], reading.term)
        record = reading.view.store(name)
        store = record if isinstance(record, Store) else Store(name)
        handles = (reading.view.handle(name, handle) for handle in state.names(name))
        count = sum(1 for handle in handles if handle and not (isinstance(handle, Handle) and absent(store, handle)))
        found.append({"store": name, "handles": count, "revision": reading.revision, "epoch": store.epoch})
    return StorePage(found, None, reading.term)

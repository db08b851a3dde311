"""Operations on a store as a whole, and the list of stores."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from service.leader import Replica
from service.operations.calls import Caller, Reply, perform
from service.rules.handles import absent
from service.rules.records import Corrupt, Handle, Store
from service.rules.requests import Clear, LockAll, ReleaseAll

log = logging.getLogger("milepost.stores")


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
    """The stores that exist, with the number of their handles and their epoch: None where their own record cannot be
    read, and then cleared handles may be counted.
    """
    reading = replica.journal.read()
    state = reading.view.state
    found: list[dict[str, Any]] = []
    for name in state.stores(after):
        if len(found) == limit:
            return StorePage(found, found[-1]["store"], reading.term)
        record = reading.view.store(name)
        if isinstance(record, Corrupt):
            log.warning("the record of store %s cannot be read: %s", name, record.reason)
        store = record if isinstance(record, Store) else Store(name)
        epoch = None if isinstance(record, Corrupt) else store.epoch
        handles = (reading.view.handle(name, handle) for handle in state.names(name))
        count = sum(1 for handle in handles if handle and not (isinstance(handle, Handle) and absent(store, handle)))
        found.append({"store": name, "handles": count, "revision": reading.revision, "epoch": epoch})
    return StorePage(found, None, reading.term)

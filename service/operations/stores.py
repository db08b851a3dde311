"""Operations on a store as a whole, and the list of stores."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from milepost.errors import Problem
from milepost.wire import Outcome
from service.leader import Replica
from service.operations.calls import Caller, Reply, decided, perform, reply_of
from service.operations.many import JsonList
from service.problems import problem
from service.rules.decisions import Accepted
from service.rules.records import Corrupt, Store
from service.rules.requests import Clear, LockAll, ReleaseAll
from service.rules.snapshots import Snapshot
from service.rules.stores import told_of

log = logging.getLogger("milepost.stores")


@dataclass(frozen=True, slots=True)
class StorePage:
    """A page of the stores, by name."""

    stores: list[dict[str, Any]]
    next: str | None
    term: int


async def lock_all(replica: Replica, caller: Caller, store: str) -> Reply:
    """getAllAndLock: what was there when the lock landed, sorted by name, and what cannot be read beside it."""
    served = await decided(replica, LockAll(caller.session, caller.key, caller.attempt, store))
    reply = reply_of(served)
    assert isinstance(served.decision, Accepted)
    assert served.decision.inventory is not None
    snapshot = served.decision.inventory.snapshot or _now(replica)
    record = snapshot.store(store)
    of_store = record if isinstance(record, Store) else Store(store)
    found, damaged = JsonList(), JsonList()

    def add(name: str) -> None:
        told = told_of(snapshot, of_store, name)
        if isinstance(told, Corrupt):
            damaged.add({"name": told.name, "reason": told.reason})
        elif told is not None:
            found.add(told)

    await replica.slices.through(lambda behind: snapshot.names(store, behind), "", add)
    body = {"handles": found.whole(), "corrupt": damaged.whole()}
    return replace(reply, answer=replace(reply.answer, body=body))


def _now(replica: Replica) -> Snapshot:
    """For a replay: its change landed long ago, so nothing that happens now makes it not applied."""
    try:
        return replica.journal.read().view.state.snapshot()
    except Problem as error:
        raise problem(error.code, error.detail, outcome=Outcome.APPLIED) from error


async def release_all(replica: Replica, caller: Caller, store: str) -> Reply:
    """releaseAll."""
    return await perform(replica, ReleaseAll(caller.session, caller.key, caller.attempt, store))


async def clear(replica: Replica, caller: Caller, store: str) -> Reply:
    """clearEntries."""
    return await perform(replica, Clear(caller.session, caller.key, caller.attempt, store, caller.epoch))


async def list_stores(replica: Replica, after: str, limit: int) -> StorePage:
    """The stores that exist, with the number of their handles and their epoch: None where their own record cannot be
    read, and then cleared handles may be counted. Each is told of as it was at the revision beside it.
    """
    found: list[dict[str, Any]] = []
    following: str | None = None

    def add(name: str) -> bool:
        nonlocal following
        if len(found) == limit:
            following = found[-1]["store"]
            return True
        reading = replica.journal.read()
        record = reading.view.store(name)
        if isinstance(record, Corrupt):
            log.warning("the record of store %s cannot be read: %s", name, record.reason)
        epoch = None if isinstance(record, Corrupt) else record.epoch if record else 0
        handles = reading.view.state.count(name)
        found.append({"store": name, "handles": handles, "revision": reading.revision, "epoch": epoch})
        return False

    await replica.slices.through(lambda behind: replica.journal.read().view.state.stores(behind), after, add)
    return StorePage(found, following, replica.journal.read().term)

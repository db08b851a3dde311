"""Operations on a store as a whole, and on the list of all stores."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from milepost.errors import Problem
from milepost.wire import Outcome
from service.basics.problems import problem
from service.basics.slices import Slices
from service.journal import Journal
from service.operations.many import JsonList
from service.replica.submitter import Caller, Reply, Submitter, reply_of
from service.rules.acts.stores import inventory_entry
from service.rules.decisions import Accepted
from service.rules.memory.snapshots import Snapshot
from service.rules.records import Corrupt, Store
from service.rules.requests import Clear, LockAll, ReleaseAll

log = logging.getLogger("milepost.stores")


@dataclass(frozen=True, slots=True)
class StorePage:
    """A page of the stores, sorted by name; ``next`` is the name after which the next page begins, None on the last."""

    stores: list[dict[str, Any]]
    next: str | None
    term: int


class StoreOperations:
    """The operations on a store as a whole, and on the list of all stores."""

    def __init__(self, journal: Journal, slices: Slices, submitter: Submitter) -> None:
        self._journal = journal
        self._slices = slices
        self._submitter = submitter

    async def lock_all(self, caller: Caller, store: str) -> Reply:
        """Lock all handles of a store for the caller's session, and return them: Flink's ``getAllAndLock``.

        The answer shows the store as it was when the lock was committed, sorted by name; handles whose record is
        damaged are in a list of their own.
        """
        served = await self._submitter.decided(LockAll(caller.attempt, store))
        reply = reply_of(served)
        assert isinstance(served.decision, Accepted)
        assert served.decision.inventory is not None
        snapshot = served.decision.inventory.snapshot or self._now()
        record = snapshot.store(store)
        of_store = record if isinstance(record, Store) else Store(store)
        found, damaged = JsonList(), JsonList()

        def add(name: str) -> None:
            entry = inventory_entry(snapshot, of_store, name)
            if isinstance(entry, Corrupt):
                damaged.add({"name": entry.name, "reason": entry.reason})
            elif entry is not None:
                found.add(entry)

        await self._slices.through(lambda behind: snapshot.names(store, behind), "", add)
        body = {"handles": found.build(), "corrupt": damaged.build()}
        return replace(reply, answer=replace(reply.answer, body=body))

    async def release_all(self, caller: Caller, store: str) -> Reply:
        """Release all locks of the caller's session in a store: Flink's ``releaseAll``."""
        return await self._submitter.perform(ReleaseAll(caller.attempt, store))

    async def clear(self, caller: Caller, store: str) -> Reply:
        """Remove all handles of a store and leave their blobs: Flink's ``clearEntries``."""
        return await self._submitter.perform(Clear(caller.attempt, store, caller.epoch))

    async def list_page(self, after: str, limit: int) -> StorePage:
        """Return a page of at most ``limit`` stores after ``after``, each with its number of handles and its epoch.

        The epoch is None if the store's own record cannot be read; then cleared handles may be counted as well. Each
        store is described as it was at the revision beside it.
        """
        found: list[dict[str, Any]] = []
        following: str | None = None

        def add(name: str) -> bool:
            nonlocal following
            if len(found) == limit:
                following = found[-1]["store"]
                return True
            reading = self._journal.read()
            record = reading.view.store(name)
            if isinstance(record, Corrupt):
                log.warning("the record of store %s is damaged; it is listed without an epoch: %s", name, record.reason)
            epoch = None if isinstance(record, Corrupt) else record.epoch if record else 0
            handles = reading.view.state.count(name)
            found.append({"store": name, "handles": handles, "revision": reading.revision, "epoch": epoch})
            return False

        await self._slices.through(lambda behind: self._journal.read().view.state.stores(behind), after, add)
        return StorePage(found, following, self._journal.read().term)

    def _now(self) -> Snapshot:
        """Return the state as it is now, for the replay of a request.

        The change of the request was committed earlier, so an error here has the outcome ``applied``.
        """
        try:
            return self._journal.read().view.state.snapshot()
        except Problem as error:
            raise problem(error.code, error.detail, outcome=Outcome.APPLIED) from error

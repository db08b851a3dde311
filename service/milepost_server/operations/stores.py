"""Operations on a store as a whole, and on the list of all stores."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from milepost.errors import Problem
from milepost.wire import Outcome
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.pieces import JsonList
from milepost_server.basics.problems import problem
from milepost_server.journal import Journal
from milepost_server.memory.snapshots import Snapshot
from milepost_server.model.records import Corrupt, Store
from milepost_server.model.requests.handles import LockAll
from milepost_server.model.trees import Tree
from milepost_server.operations.snapshots import snapshot_body
from milepost_server.replica.submitter import Caller, Reply, Submitter, reply_of
from milepost_server.rules.answers import epoch_body
from milepost_server.rules.decisions import Accepted
from milepost_server.rules.handlers.stores import inventory_entry

log = logging.getLogger("milepost.stores")

_NO_EPOCH = {"epoch": None, "session": None, "holder": None, "since": None}
"""The epoch in a listing for a store whose own record cannot be read."""


@dataclass(frozen=True, slots=True)
class StorePage:
    """A page of the list of all stores, sorted by name.

    ``next`` is the name after which the next page begins, None on the last page.
    """

    stores: list[dict[str, Any]]
    next: str | None
    term: int


class StoreOperations:
    """The operations on a store as a whole, and on the list of all stores."""

    def __init__(self, journal: Journal, loop_time: LoopTimeBudget, submitter: Submitter) -> None:
        self._journal = journal
        self._loop_time = loop_time
        self._submitter = submitter

    async def lock_all(self, caller: Caller, store: str) -> Reply:
        """Lock all handles of a store for the caller's session, and return them: Flink's ``getAllAndLock``.

        The answer lists the handles by name as they were when the lock was committed, and handles whose record is
        damaged in a separate list. The answer to a replay lists the handles as they are now, since the first answer is
        too large to be kept.
        """
        served = await self._submitter.submit_and_wait(LockAll(caller.attempt, store))
        reply = reply_of(served)
        assert isinstance(served.decision, Accepted)
        assert served.decision.inventory is not None
        snapshot = served.decision.inventory.snapshot or self._snapshot_for_replay()
        record = snapshot.store(store)
        of_store = record if isinstance(record, Store) else Store(store)
        handles, damaged = JsonList(), JsonList()

        def add(name: str) -> None:
            entry = inventory_entry(snapshot, of_store, name)
            if isinstance(entry, Corrupt):
                damaged.add({"name": entry.name, "reason": entry.reason})
            elif entry is not None:
                handles.add(entry)

        await self._loop_time.each_after(lambda last: snapshot.names(store, last), "", add)
        body = {"handles": handles.build(), "corrupt": damaged.build()}
        return replace(reply, answer=replace(reply.answer, body=body))

    async def list_page(self, after: str, limit: int, shown: Callable[[str], bool] = lambda _: True) -> StorePage:
        """Return a page of at most ``limit`` stores, whose names come after ``after``.

        ``shown`` says of a store whether the caller may see it; other stores are skipped as if they did not exist.

        Each store comes with its number of handles, its epoch (0 before the first one) with the session that holds it,
        the newest snapshot of its tree, the number of its records that cannot be read, and the revision at which all
        this was read. If the store's own record cannot be read, the epoch is None, and the number of handles may
        include cleared ones, since only that record says which handles were cleared.
        """
        found: list[dict[str, Any]] = []
        following: str | None = None

        def add(name: str) -> bool:
            nonlocal following
            if not shown(name):
                return False
            if len(found) == limit:
                following = found[-1]["store"]
                return True
            reading = self._journal.read()
            record = reading.view.store(name)
            if isinstance(record, Store) and record.elsewhere is not None:
                return False
            if isinstance(record, Corrupt):
                log.warning("the record of store %s is damaged; it is listed without an epoch: %s", name, record.reason)
            state, tree = reading.view.state, reading.view.tree(name)
            found.append(
                {
                    "store": name,
                    "handles": state.count(name),
                    "revision": reading.revision,
                    **(_NO_EPOCH if isinstance(record, Corrupt) else epoch_body(state, record or Store(name))),
                    "snapshot": snapshot_body(tree.snapshots[-1])
                    if isinstance(tree, Tree) and tree.snapshots
                    else None,
                    "damaged": state.count_unreadable(name),
                }
            )
            return False

        await self._loop_time.each_after(lambda last: self._journal.state().stores(last), after, add)
        return StorePage(found, following, self._journal.read().term)

    def _snapshot_for_replay(self) -> Snapshot:
        """Return a snapshot of the current records, for the answer to a replayed request that locks all handles of a
        store.

        The lock was already committed, so a problem that is raised here has the outcome ``applied``.
        """
        try:
            return self._journal.state().snapshot()
        except Problem as error:
            raise problem(error.code, error.detail, outcome=Outcome.APPLIED) from error

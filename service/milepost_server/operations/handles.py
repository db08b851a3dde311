"""Operations on handles that move no state bytes: read the records of a handle and of its store, list, remove."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from milepost.wire import Code
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.problems import problem, refusal
from milepost_server.journal import Journal
from milepost_server.memory.lookup import Lookup
from milepost_server.model.records import Corrupt, Handle, Store
from milepost_server.model.requests.handles import Remove
from milepost_server.replica.submitter import Caller, Reply, Submitter
from milepost_server.rules.answers import handle_body
from milepost_server.rules.decisions import Answer
from milepost_server.rules.guards import is_elsewhere, store_readable
from milepost_server.rules.handlers.handles import absent, present


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a store's handles, sorted by name, with a separate list of handles whose record is damaged.

    ``next`` is the name after which the next page begins, None on the last page.
    """

    handles: list[dict[str, Any]]
    corrupt: list[dict[str, str]]
    next: str | None
    revision: int
    term: int


def store_in(view: Lookup, name: str) -> Store:
    """Return the store's own record, or a new one if there is none.

    Raises a ``corrupt`` problem if the record cannot be read: without the record, it is unknown which handles were
    cleared, and which epoch is current. Raises an ``elsewhere`` problem if the job is in another cell.
    """
    record = view.store(name)
    if isinstance(record, Store):
        if record.move is not None and (elsewhere := is_elsewhere(record)) is not None:
            raise refusal(elsewhere)
        return record
    if damaged := store_readable(view, name):
        raise refusal(damaged)
    return Store(name)


def check_is_here(view: Lookup, job: str) -> None:
    """Raise an ``elsewhere`` problem if the job is in another cell. A damaged record of its store is no reason to."""
    record = view.store(job)
    if isinstance(record, Store) and (elsewhere := is_elsewhere(record)) is not None:
        raise refusal(elsewhere)


def existing(view: Lookup, store: str, name: str) -> Handle:
    """Return the handle ``name`` of a store. Raises ``not-exist`` and ``corrupt`` problems."""
    of_store, record = store_in(view, store), view.handle(store, name)
    if isinstance(record, Corrupt):
        raise problem(Code.CORRUPT, f"the record of {name!r} is damaged: {record.reason}")
    handle = present(of_store, record)
    if handle is None:
        raise problem(Code.NOT_EXIST, f"there is no handle {name!r} in {store!r}")
    return handle


def record_in(view: Lookup, store: str, name: str) -> Answer:
    """Return the answer that shows the record of a handle. Raises ``not-exist`` and ``corrupt`` problems."""
    handle = existing(view, store, name)
    return Answer(handle_body(view, store_in(view, store), handle), handle.version)


class HandleOperations:
    """The operations on handles that neither send nor receive the bytes of a state."""

    def __init__(self, journal: Journal, loop_time: LoopTimeBudget, submitter: Submitter) -> None:
        self._journal = journal
        self._loop_time = loop_time
        self._submitter = submitter

    def get(self, store: str, name: str) -> Reply:
        """Return the record of a handle without taking a lock. This also serves as ``exists`` of Flink's contract."""
        reading = self._journal.read()
        return Reply(record_in(reading.view, store, name), reading.revision, reading.term)

    async def list_page(self, store: str, after: str, limit: int) -> Page:
        """Return a page of at most ``limit`` handles, whose names come after ``after``: Flink's ``getAllHandles``.

        The page may include handles whose removal has begun. Raises a ``corrupt`` problem if the store's own record
        cannot be read.
        """
        reading = self._journal.read()
        snapshot = reading.view.state.snapshot()
        record = store_in(snapshot, store)
        page = Page([], [], None, reading.revision, reading.term)
        last = ""

        def add(name: str) -> bool:
            nonlocal last, page
            handle = snapshot.handle(store, name)
            if handle is None or (isinstance(handle, Handle) and absent(record, handle)):
                return False
            if len(page.handles) + len(page.corrupt) == limit:
                page = replace(page, next=last)
                return True
            if isinstance(handle, Corrupt):
                page.corrupt.append({"name": handle.name, "reason": handle.reason})
            else:
                page.handles.append(handle_body(snapshot, record, handle))
            last = name
            return False

        await self._loop_time.each_after(lambda last_name: snapshot.names(store, last_name), after, add)
        return page

    async def remove(self, caller: Caller, store: str, name: str, version: str | None) -> Reply:
        """Release the caller's lock, and remove the handle unless another session holds it.

        This is Flink's ``releaseAndTryRemove``. The method returns once the blob is deleted and the record is dropped.
        If ``version`` is not None, it must be the current version.
        """
        reply = await self._submitter.perform(Remove(caller.attempt, store, name, caller.epoch, version))
        if reply.finish is not None:
            await self._submitter.finish_removal(reply.finish)
        return reply

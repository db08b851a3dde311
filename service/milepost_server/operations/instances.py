"""Operations on the record of which executor has which state store of a job loaded.

All are answered from the leader's memory, under its lease, and change nothing that is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, TypeVar

from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.problems import refusal
from milepost_server.journal import Journal
from milepost_server.operations.records import store_in
from milepost_server.replica.submitter import Reply
from milepost_server.rules.decisions import Answer, Refused
from milepost_server.rules.guards import epoch_is_current
from milepost_server.rules.instances import FIRST, Book, Entry, Instance, Instances, Location, first_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lag:
    """When an instance of ``run`` lags: its newest snapshot is more than ``versions`` behind ``version``, and is from
    ``seconds`` ago at least.
    """

    run: str
    version: int
    versions: int
    seconds: float


class InstanceOperations:
    """The operations on the loaded state stores of a job. Those that note something need the job's current epoch."""

    def __init__(
        self, journal: Journal, instances: Instances, loop_time: LoopTimeBudget, clock: Callable[[], float]
    ) -> None:
        self._journal = journal
        self._instances = instances
        self._loop_time = loop_time
        self._clock = clock

    def report(
        self,
        store: str,
        epoch: int | None,
        location: Location,
        loaded: Sequence[Instance],
        others: Sequence[Instance],
    ) -> Reply:
        """Note what an executor has loaded, and tell it which of the ``others`` are another one's.

        Raises ``fenced`` and ``too-many-requests`` problems.
        """
        book, now = self._opened(store, epoch), self._clock()
        unload = _granted(self._instances.report(book, location, loaded, others, now))
        return self._reply({"record": book.id, "unload": [_instance_body(one) for one in unload]})

    def verify(
        self, store: str, epoch: int | None, location: Location, record: str, instances: Sequence[Instance]
    ) -> Reply:
        """Tell an executor which of these instances are its own. Raises the same problems as `report`."""
        book, now = self._opened(store, epoch), self._clock()
        active = _granted(self._instances.verify(book, location, record, instances, now))
        return self._reply({"record": book.id, "active": [_instance_body(one) for one in active]})

    def locations(self, store: str, instances: Sequence[Instance]) -> Reply:
        """Tell where these instances are loaded; those that nobody has are left out."""
        book, now = self._found(store), self._clock()
        entries = [] if book is None else [self._instances.entry(book, one, now) for one in dict.fromkeys(instances)]
        return self._reply({"locations": [_entry_body(entry, now) for entry in entries if entry is not None]})

    def snapshots(self, store: str, epoch: int | None, made: Sequence[tuple[Instance, int]]) -> Reply:
        """Note the versions of snapshots that were made. Raises the same problems as `report`."""
        book, now = self._opened(store, epoch), self._clock()
        for instance, version in made:
            self._instances.snapshot(book, instance, version, now)
        return self._reply({})

    async def deactivate(
        self,
        store: str,
        epoch: int | None,
        instances: Sequence[Instance] | None,
        run: str | None,
        executor: str | None,
    ) -> Reply:
        """Let nobody have these instances any more: of a run and of an executor, if these are given. All others go on.

        Raises the same problems as `report`.
        """
        book, now = self._opened(store, epoch), self._clock()
        count = 0

        def drop(instance: Instance) -> None:
            nonlocal count
            count += self._instances.deactivate(book, instance, executor, now)

        if instances is not None:
            for one in instances:
                if run in (None, one.run):
                    drop(one)
        elif run is None and executor is None:
            count = self._instances.deactivate_all(store, book)
        else:
            await self._loop_time.each_after(lambda last: book.after(last, run), first_of(run), drop)
        return self._reply({"deactivated": count})

    async def list_page(self, store: str, after: Instance | None, limit: int) -> tuple[Reply, Instance | None]:
        """Return a page of at most ``limit`` instances that come after ``after``, and the last of them if there are
        more.
        """
        book, now = self._found(store), self._clock()
        found: list[Entry] = []

        def add(instance: Instance) -> bool:
            entry = None if book is None else self._instances.entry(book, instance, now)
            if entry is not None:
                found.append(entry)
            return len(found) > limit

        if book is not None:
            await self._loop_time.each_after(book.after, after or FIRST, add)
        more = found[limit - 1].instance if len(found) > limit else None
        return self._reply({"instances": [_entry_body(entry, now) for entry in found[:limit]]}), more

    async def lagging(self, store: str, lag: Lag, limit: int) -> Reply:
        """Tell how many instances lag, and the ``limit`` of them that lag most (``logLaggingStateStores``)."""
        book, now = self._found(store), self._clock()
        count = 0
        most: list[Entry] = []

        def add(instance: Instance) -> None:
            nonlocal count
            entry = None if book is None else self._instances.entry(book, instance, now)
            if entry is not None and entry.lags(lag.version, lag.versions, lag.seconds, now):
                count += 1
                most.append(entry)
                if len(most) >= 2 * limit:
                    most[:] = _oldest(most, limit)

        if book is not None:
            await self._loop_time.each_after(lambda last: book.after(last, lag.run), first_of(lag.run), add)
        bodies = [_entry_body(entry, now) for entry in _oldest(most, limit)]
        return self._reply({"count": count, "lagging": bodies})

    def _opened(self, store: str, epoch: int | None) -> Book:
        record = store_in(self._journal.read().view, store)
        if refused := epoch_is_current(record, epoch, self._journal.epoch_floor):
            raise refusal(refused)
        return _granted(self._instances.open(store, record.epoch, self._clock()))

    def _found(self, store: str) -> Book | None:
        return self._instances.find(store, store_in(self._journal.read().view, store).epoch)

    def _reply(self, body: dict[str, Any]) -> Reply:
        reading = self._journal.read()
        return Reply(Answer(body), reading.revision, reading.term)


def _oldest(entries: list[Entry], most: int) -> list[Entry]:
    """Return the entries whose snapshots are of the lowest versions, and of these the oldest first."""
    return nlargest(most, entries, key=lambda entry: (-(entry.snapshot or 0), -entry.snapshot_at))


def _instance_body(instance: Instance) -> dict[str, Any]:
    return instance._asdict()


def _entry_body(entry: Entry, now: float) -> dict[str, Any]:
    age = max(0.0, now - entry.confirmed)
    return {**_instance_body(entry.instance), **entry.location._asdict(), "snapshot": entry.snapshot, "age": age}


def _granted(found: T | Refused) -> T:
    if isinstance(found, Refused):
        raise refusal(found)
    return found

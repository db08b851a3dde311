"""The rules of the record of loaded state stores, with the meaning of Spark's ``StateStoreCoordinator``.

It is a hint and no truth. It lies in the memory of the leader alone and is bounded, in number and in age, so that it
may be incomplete at any time; an executor that finds itself forgotten reports again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sortedcontainers import SortedDict

from milepost.wire import MAX_INSTANCES, Code
from milepost_server.rules.decisions import Refused


class Instance(NamedTuple):
    """A state store of a run of a query, as Spark's ``StateStoreProviderId`` names it. Instances sort by run first."""

    run: str
    operator: int
    partition: int
    name: str


class Location(NamedTuple):
    """The executor that has an instance loaded, and the host that it runs on."""

    host: str
    executor: str


@dataclass(slots=True, eq=False)
class Entry:
    """What is known of one instance. Times are monotonic seconds.

    ``since`` is when this record first heard of the instance, ``confirmed`` when its executor last said that it has it.
    ``snapshot`` is the version of the newest snapshot that was told of, at ``snapshot_at``; None before the first.
    """

    instance: Instance
    location: Location
    since: float
    confirmed: float
    snapshot: int | None = None
    snapshot_at: float = 0.0

    def lags(self, version: int, versions: int, seconds: float, now: float) -> bool:
        """Return whether the newest snapshot is more than ``versions`` behind ``version``, and is that old.

        An instance of which no snapshot was told is at version 0 since this record first heard of it: after a change of
        leader nobody is said to lag for what was only forgotten.
        """
        behind = version - (self.snapshot or 0) > versions
        return behind and now - max(self.since, self.snapshot_at) >= seconds


class Book:
    """The instances of one job under one epoch.

    ``id`` is another one for each book. An executor that shows it proves that what it does not find here was taken from
    it, and not merely forgotten. ``used`` is when the book was last used, in monotonic seconds.
    """

    __slots__ = ("entries", "epoch", "id", "used")

    def __init__(self, epoch: int, id_: str, used: float) -> None:
        self.epoch = epoch
        self.id = id_
        self.used = used
        self.entries: SortedDict[Instance, Entry] = SortedDict()

    def after(self, last: Instance, run: str | None = None) -> Iterator[Instance]:
        """Yield the instances that come after ``last``, in order; only those of ``run`` if that is given."""
        for instance in self.entries.irange(last, inclusive=(False, True)):
            if run is not None and instance.run != run:
                return
            yield instance


FIRST = Instance("", -1, -1, "")
"""Comes before every instance."""


def first_of(run: str | None) -> Instance:
    """Return what comes before every instance of a run, or before all instances if that is None."""
    return FIRST if run is None else FIRST._replace(run=run)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept: instances and books in all, instances of one store, and seconds since they were confirmed."""

    most: int = 100_000
    most_in_store: int = 50_000
    seconds: float = 3600.0


class Instances:
    """The books of all stores. No call but `clear` takes longer the more is kept.

    Times are monotonic seconds. ``new_id`` makes the id of a book.
    """

    def __init__(self, limits: Limits, new_id: Callable[[], str]) -> None:
        self._limits = limits
        self._new_id = new_id
        self._books: OrderedDict[str, Book] = OrderedDict()
        self._order: OrderedDict[Entry, Book] = OrderedDict()
        self._forgotten: list[Book] = []

    def __len__(self) -> int:
        """Return how many instances are in memory, also those that nobody is shown any more."""
        return len(self._order)

    def clear(self) -> None:
        """Forget everything: another replica may lead now, and hear what this one does not."""
        self._books.clear()
        self._order.clear()
        self._forgotten.clear()

    def find(self, store: str, epoch: int) -> Book | None:
        """Return the book of a store under its current epoch, None if there is none; forget that of an older one."""
        book = self._books.get(store)
        if book is not None and book.epoch != epoch:
            self._forgotten.append(self._books.pop(store))
            return None
        return book

    def open(self, store: str, epoch: int, now: float) -> Book | Refused:
        """Return the book of a store under its current epoch; begin one if there is none and there is room."""
        book = self.find(store, epoch)
        if book is None:
            if self._taken >= self._limits.most:
                self.expire(now, 1 + MAX_INSTANCES)
            if self._taken >= self._limits.most:
                return _full(self._limits.most, "all stores")
            book = self._books[store] = Book(epoch, self._new_id(), now)
        book.used = now
        self._books.move_to_end(store)
        return book

    def report(
        self, book: Book, location: Location, loaded: Collection[Instance], others: Collection[Instance], now: float
    ) -> list[Instance] | Refused:
        """Note that these instances are loaded at ``location``, wherever they were before (``reportActiveInstance``).

        Returns which of the ``others`` that the executor has loaded are at another executor, so that it can unload
        them. Those that nobody has are not among them.
        """
        if refused := self._no_room(book, loaded, now):
            return refused
        for instance in loaded:
            self._put(book, instance, location, now)
        return [one for one in others if not self._confirm(book, one, location, now, unknown=True)]

    def verify(
        self, book: Book, location: Location, known: str, instances: Collection[Instance], now: float
    ) -> list[Instance] | Refused:
        """Return which of these instances the executor at ``location`` has (``verifyIfInstanceActive``).

        ``known`` is the id of the book that the executor was told last. If it is another one, what the executor
        reported is forgotten, and not taken from it: then it gets those instances that nobody has.
        """
        if known != book.id:
            claimed = [one for one in instances if self.entry(book, one, now) is None]
            if refused := self._no_room(book, claimed, now):
                return refused
            for instance in claimed:
                self._put(book, instance, location, now)
        return [one for one in instances if self._confirm(book, one, location, now, unknown=False)]

    def entry(self, book: Book, instance: Instance, now: float) -> Entry | None:
        """Return what is known of an instance, None if nobody has it (``getLocation``)."""
        entry = book.entries.get(instance)
        return None if entry is None or self._is_old(entry, now) else entry

    def snapshot(self, book: Book, instance: Instance, version: int, now: float) -> None:
        """Note that a snapshot of an instance was made, unless a newer one is known (``snapshotUploaded``).

        It does not matter who made it. Nothing is noted of an instance that nobody has.
        """
        entry = self.entry(book, instance, now)
        if entry is not None and (entry.snapshot is None or entry.snapshot < version):
            entry.snapshot, entry.snapshot_at = version, now

    def deactivate(self, book: Book, instance: Instance, executor: str | None, now: float) -> bool:
        """Let nobody have this instance, if ``executor`` has it or is None; return whether somebody had it."""
        entry = book.entries.get(instance)
        if entry is None or executor not in (None, entry.location.executor):
            return False
        old = self._is_old(entry, now)
        self._drop(entry)
        return not old

    def deactivate_all(self, store: str, book: Book) -> int:
        """Let nobody have any instance of a store, and return how many there were. Its book goes on under its id."""
        count = len(book.entries)
        if count and self._books.get(store) is book:
            self._books[store] = Book(book.epoch, book.id, book.used)
            self._forgotten.append(book)
        return count

    def expire(self, now: float, most: int) -> bool:
        """Remove what is not shown any more, in at most ``most`` steps; return whether there may be more of it."""
        horizon = now - self._limits.seconds
        for _ in range(most):
            if self._forgotten:
                book = self._forgotten[-1]
                if book.entries:
                    self._drop(book.entries.peekitem()[1])
                else:
                    self._forgotten.pop()
            elif self._order and (oldest := next(iter(self._order))).confirmed <= horizon:
                self._drop(oldest)
            elif self._books and (unused := next(iter(self._books.items())))[1].used <= horizon:
                del self._books[unused[0]]  # what was in it is older still, and was dropped
            else:
                return False
        return True

    @property
    def _taken(self) -> int:
        return len(self._order) + len(self._books) + len(self._forgotten)

    def _no_room(self, book: Book, loaded: Collection[Instance], now: float) -> Refused | None:
        """Refuse what there is no room for, also once what is not shown any more has made as much room as it can."""
        if self._full(book, loaded) is not None:
            self.expire(now, 1 + 2 * MAX_INSTANCES)
        return self._full(book, loaded)

    def _full(self, book: Book, loaded: Collection[Instance]) -> Refused | None:
        new = sum(one not in book.entries for one in set(loaded))
        if len(book.entries) + new > self._limits.most_in_store:
            return _full(self._limits.most_in_store, "one store")
        if new and self._taken + new > self._limits.most:
            return _full(self._limits.most, "all stores")
        return None

    def _put(self, book: Book, instance: Instance, location: Location, now: float) -> None:
        entry = book.entries.get(instance)
        if entry is not None and self._is_old(entry, now):
            self._drop(entry)
            entry = None
        if entry is None:
            entry = book.entries[instance] = Entry(instance, location, now, now)
            self._order[entry] = book
        if entry.location != location:
            entry.location = location
        self._confirmed(entry, now)

    def _confirm(self, book: Book, instance: Instance, location: Location, now: float, *, unknown: bool) -> bool:
        """Return whether the executor has the instance, and note that it still has; ``unknown`` if nobody has it."""
        entry = self.entry(book, instance, now)
        if entry is None:
            return unknown
        if entry.location.executor != location.executor:
            return False
        self._confirmed(entry, now)
        return True

    def _confirmed(self, entry: Entry, now: float) -> None:
        entry.confirmed = now
        self._order.move_to_end(entry)

    def _is_old(self, entry: Entry, now: float) -> bool:
        return entry.confirmed <= now - self._limits.seconds

    def _drop(self, entry: Entry) -> None:
        del self._order.pop(entry).entries[entry.instance]


def _full(most: int, what: str) -> Refused:
    return Refused(Code.TOO_MANY_REQUESTS, f"no more than {most} instances of state stores are kept of {what}")

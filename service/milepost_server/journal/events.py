"""The latest events of all stores, in the memory of a leader, for clients that watch a store or a job.

They begin with a leadership and end with it. The journal knows every event after that beginning, as far as the bounds
allow, and says of any place whether it still knows every event after it.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from milepost_server.memory.state import State
from milepost_server.model.history import store_of_page
from milepost_server.rules.decisions import Changes, only_paths
from milepost_server.rules.events import LAST, CommittedChanges, Event, TooManyEvents

log = logging.getLogger("milepost.journal")

MOST_EVENTS: Final = 65_536
MOST_EVENT_BYTES: Final = 16 * 1024 * 1024
"""The bounds on the events in memory, of all stores together: their number, and the bytes of their data."""

MOST_UNWATCHED_STORES: Final = 10_000
"""The most stores that no client watches for which a leader keeps events."""


class Place(NamedTuple):
    """A place in the order of a store's events: right after the event with the index ``after`` of the change to
    ``revision``, or after all events of that revision.
    """

    revision: int
    after: int = LAST

    def __str__(self) -> str:
        return str(self.revision) if self.after == LAST else f"{self.revision}.{self.after}"


class EventsGone(Exception):
    """Raised if events after a place are not in memory any more, or never were."""


@dataclass(eq=False, slots=True)
class _Log:
    """The events of one store. All events of the store after ``floor`` are in ``events``, of which ``evicted`` earlier
    ones were dropped. ``news`` has one entry for each client that watches the store.
    """

    floor: Place
    events: deque[Event] = field(default_factory=deque)
    evicted: int = 0
    news: set[asyncio.Event] = field(default_factory=set)

    @property
    def last(self) -> Place:
        """The place after all events of the store."""
        return Place(*self.events[-1].place) if self.events else self.floor


class LatestEvents:
    """The latest events of all stores under one leadership, which began at ``revision``.

    ``revision`` is the latest one whose events are all here. ``final`` is set once the leader admits no further change:
    there will be no event after ``revision``. ``ended`` is set once the leadership is over. Since ``known_from``, the
    records in memory changed by commits alone.
    """

    def __init__(self, revision: int, *, most_events: int = MOST_EVENTS, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self.revision = revision
        self.known_from = revision
        self.final = False
        self.ended = False
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._floor = Place(revision)
        self._watched: dict[str, _Log] = {}
        self._unwatched: OrderedDict[str, _Log] = OrderedDict()
        self._order: deque[tuple[_Log, int, int]] = deque()
        self._bytes = 0
        self._of_histories: dict[str, set[asyncio.Event]] = {}

    # -- called by the journal -----------------------------------------------------------------------------------------

    def commit(self, state: State, changes: Iterable[tuple[int, Changes]], revision: int) -> None:
        """Add the events of a committed group, and wake the clients that watch its stores.

        ``state`` has the records before the group. ``changes`` has the revision and the records of each change of the
        group; ``revision`` is that of the last one.
        """
        self.revision = revision
        committed: CommittedChanges | None = None
        touched: set[_Log] = set()
        for at, records in changes:
            if only_paths(records):
                continue  # no event is about a path, and none looks one up
            if committed is None:
                committed = CommittedChanges(state)
            try:
                events = committed.events(records, at)
            except TooManyEvents as error:
                log.warning("the events at revision %d are not kept, so every watch begins anew: %s", at, error)
                self.break_off(at)
                continue
            for store, event in events:
                touched.add(self._add(store, event))
            if self._of_histories:
                for job in {store_of_page(key) for key in records} & self._of_histories.keys():
                    _wake(self._of_histories[job])
        for each in touched:
            _wake(each.news)

    def break_off(self, revision: int) -> None:
        """Forget all events up to ``revision``, because one of them is not known: every watch must begin anew."""
        self._floor = Place(revision)
        self.known_from = revision
        self._order.clear()
        self._bytes = 0
        self._unwatched.clear()
        for each in self._watched.values():
            each.floor, each.evicted = self._floor, each.evicted + len(each.events) + 1
            each.events.clear()
        self._wake_all()

    def move(self, revision: int) -> None:
        """Note that the journal is at ``revision``, and that no change was committed since the last one."""
        if revision < self.revision:
            self.break_off(revision)
        self.revision = revision

    def finish(self) -> None:
        """Note that no further change will be committed under this leadership, and wake all clients that watch."""
        self.final = True
        self._wake_all()

    def end(self) -> None:
        """Note that the leadership is over, and wake all clients that watch. Idempotent."""
        self.ended = True
        self._wake_all()

    def _wake_all(self) -> None:
        for each in self._watched.values():
            _wake(each.news)
        for news in self._of_histories.values():
            _wake(news)

    def _add(self, store: str, event: Event) -> _Log:
        each = self._watched.get(store) or self._unwatched.get(store)
        if each is None:
            each = self._unwatched[store] = _Log(self._floor)
            if len(self._unwatched) > MOST_UNWATCHED_STORES:
                self._forget()
        elif store in self._unwatched:
            self._unwatched.move_to_end(store)
        self._order.append((each, each.evicted + len(each.events), event.size))
        self._bytes += event.size
        each.events.append(event)
        while len(self._order) > self._most_events or self._bytes > self._most_bytes:
            self._evict()
        return each

    def _evict(self) -> None:
        """Drop the oldest event, unless its store was forgotten already."""
        each, number, size = self._order.popleft()
        self._bytes -= size
        if each.evicted == number and each.events:
            each.floor = Place(*each.events.popleft().place)
            each.evicted += 1

    def _forget(self) -> None:
        """Forget the store without a watch that has not changed for longest."""
        _, forgotten = self._unwatched.popitem(last=False)
        self._floor = max(self._floor, forgotten.last)
        forgotten.events.clear()

    # -- called for clients that watch ---------------------------------------------------------------------------------

    @contextmanager
    def watch(self, store: str, after: Place | None) -> Iterator[Watch]:
        """Return a watch on a store, which begins at the place ``after``, or now if that is None. It ends with the
        block. Raises `EventsGone`.
        """
        each = self._watched.get(store) or self._unwatched.get(store)
        floor = self._floor if each is None else each.floor
        begin = Place(self.revision) if after is None else after
        if begin < floor or begin.revision > self.revision:
            raise EventsGone(f"the events of {store!r} after {begin} are not in the memory of this leader")
        if each is None:
            each = _Log(self._floor)
        self._unwatched.pop(store, None)
        self._watched[store] = each
        at = each.evicted + bisect_right(each.events, begin, key=attrgetter("place"))
        watch = Watch(self, each, at, begin)
        each.news.add(watch.news)
        try:
            yield watch
        finally:
            each.news.discard(watch.news)
            if not each.news and self._watched.get(store) is each:
                del self._watched[store]
                self._unwatched[store] = each
                if len(self._unwatched) > MOST_UNWATCHED_STORES:
                    self._forget()

    @contextmanager
    def news_of_history(self, job: str) -> Iterator[asyncio.Event]:
        """Return an event that is set whenever the history of a job has changed, or the leadership ends."""
        news, all_news = asyncio.Event(), self._of_histories.setdefault(job, set())
        all_news.add(news)
        try:
            yield news
        finally:
            all_news.discard(news)
            if not all_news and self._of_histories.get(job) is all_news:
                del self._of_histories[job]


class Watch:
    """A client's place among the events of one store. ``news`` is set when there may be more for the client.

    The events are kept once for all clients, so a client that reads slowly takes no memory. It may fall behind what is
    still kept.
    """

    def __init__(self, events: LatestEvents, log: _Log, number: int, place: Place) -> None:
        self.place = place
        """The place up to which the client knows every event of the store."""
        self.news = asyncio.Event()
        self._events = events
        self._log = log
        self._number = number

    @property
    def final(self) -> bool:
        """Whether no event will follow those that `take` returns now, because the leader admits no further change."""
        return self._events.final

    @property
    def ended(self) -> bool:
        """Whether the leadership is over."""
        return self._events.ended

    def take(self, most: int) -> list[Event]:
        """Return the next events, ``most`` of them at most, and move the client's place after them. If there are none,
        move it to the latest revision. Raises `EventsGone` if the client has fallen behind.
        """
        log = self._log
        if self._number < log.evicted:
            raise EventsGone("the events after the place of the client are gone")
        begin = self._number - log.evicted
        taken = list(islice(log.events, begin, begin + most))
        self._number += len(taken)
        self.place = Place(*taken[-1].place) if taken else Place(self._events.revision)
        return taken


def _wake(all_news: Iterable[asyncio.Event]) -> None:
    for news in all_news:
        news.set()

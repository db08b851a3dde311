"""The callers that wait for the epoch of a store: one queue for each store. A commit that frees the epoch wakes only
the first caller in the queue. If this caller does not take the epoch, the next one is woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from sortedcontainers import SortedDict

from milepost_server.model.records import Record, Session, Store

BARRED: Final = " stopped"
"""What holds the epoch of a store, in place of a session, while no session does since a person has stopped the job. No
session has such an id.
"""


RESERVED_SECONDS: Final = 10.0
"""The seconds for which an epoch that is free waits for the session that it is reserved for."""


class _Reservation:
    """The next epoch after ``ending`` is for ``session``, if that asks for it within `RESERVED_SECONDS` after
    ``ending`` was first seen to be free, at the monotonic time ``free_since``.
    """

    def __init__(self, session: str, ending: int) -> None:
        self.session = session
        self.ending = ending
        self.free_since: float | None = None


class CampaignPlace:
    """A caller's place in the queue of a store.

    ``if_stopped`` is whether the caller may take the epoch although a person has stopped the job, ``knows_of_stop``
    whether the caller's last refusal said so.
    ``called`` is whether the epoch is free and it is this caller's turn. ``asked_at_end`` is whether the caller has
    repeated its request after the end of its session, which is done once, to get the answer that the session has ended.
    """

    def __init__(self, queue: _Queue, number: int, session: str, if_stopped: bool) -> None:
        self.session = session
        self.if_stopped = if_stopped
        self.knows_of_stop = False
        self.queue = queue
        self.number = number
        self.called = False
        self.asked_at_end = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Wake the caller, which then checks whether to request the epoch again."""
        self._woken.set()

    async def wait(self, seconds: float) -> None:
        """Wait until the caller is woken, for ``seconds`` at most."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._woken.clear()


class _Queue:
    """The queue of callers for the epoch of one store.

    ``holder`` is the session that was last seen to hold the epoch, `BARRED`, or "" for none.
    """

    def __init__(self, store: str) -> None:
        self.store = store
        self.holder = ""
        self.places: SortedDict[int, CampaignPlace] = SortedDict()

    def call(self, behind: int = -1) -> None:
        """Give the turn to the first caller in the queue, or to the first one after the caller whose place has the
        number ``behind``. If the epoch is barred, only callers that may take it all the same get a turn.
        """
        for number in self.places.irange(behind, inclusive=(False, True)):
            place = self.places[number]
            if self.holder != BARRED or place.if_stopped:
                place.called = True
                place.wake()
                return


class EpochQueues:
    """The queues of all stores for whose epoch a caller waits."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._held_by: dict[str, set[str]] = {}
        self._of_session: dict[str, set[CampaignPlace]] = {}
        self._arrivals: dict[str, asyncio.Event] = {}
        self._numbers = count()
        self._reservations: dict[str, _Reservation] = {}

    @contextmanager
    def place(self, store: str, session: str, *, if_stopped: bool = False) -> Iterator[CampaignPlace]:
        """Give a caller a place at the end of the store's queue, for as long as the context lasts."""
        queue = self._queues.get(store)
        if queue is None:
            queue = self._queues[store] = _Queue(store)
            if (awaited := self._arrivals.pop(store, None)) is not None:
                awaited.set()
        place = CampaignPlace(queue, next(self._numbers), session, if_stopped)
        queue.places[place.number] = place
        self._of_session.setdefault(session, set()).add(place)
        try:
            yield place
        finally:
            self._leave(place)

    def _leave(self, place: CampaignPlace) -> None:
        queue = place.queue
        del queue.places[place.number]
        of_session = self._of_session[place.session]
        of_session.discard(place)
        if not of_session:
            del self._of_session[place.session]
        if not queue.places:
            self.held(queue, "")
            del self._queues[queue.store]
        elif place.called:
            queue.call()

    def standbys(self, store: str) -> list[str]:
        """Return the sessions of the callers that wait for the epoch of a store, in their turn, each once."""
        queue = self._queues.get(store)
        return list(dict.fromkeys(place.session for place in queue.places.values())) if queue else []

    def reserve(self, store: str, session: str, ending: int) -> None:
        """Reserve the epoch after ``ending`` for a session, in place of an earlier reservation."""
        self._reservations[store] = _Reservation(session, ending)

    def must_wait(self, store: Store, session: str, now: float) -> float:
        """Return for how many seconds a session must leave the epoch of ``store``, which is free, to the session that
        it is reserved for; 0 if it need not.
        """
        reserved = self._reservations.get(store.name)
        if reserved is None:
            return 0.0
        if reserved.free_since is None:
            reserved.free_since = now
        left = reserved.free_since + RESERVED_SECONDS - now
        if store.epoch != reserved.ending or left <= 0:
            del self._reservations[store.name]
            return 0.0
        return 0.0 if session == reserved.session else left

    async def standby_comes(self, store: str, seconds: float) -> bool:
        """Return whether a caller waits for the epoch of a store, now or within ``seconds``."""
        if store not in self._queues:
            try:
                async with asyncio.timeout(seconds):
                    await self._arrivals.setdefault(store, asyncio.Event()).wait()
            except TimeoutError:
                return store in self._queues
        return True

    def pass_over(self, place: CampaignPlace) -> None:
        """Give the turn to the next caller, because the caller at ``place`` cannot take the epoch now."""
        if place.called:
            place.called = False
            place.queue.call(place.number)

    def held(self, queue: _Queue, holder: str) -> None:
        """Note that the session ``holder`` holds the epoch of the queue's store; `BARRED` or "" for none."""
        if queue.holder == holder:
            return
        if queue.holder:
            stores = self._held_by[queue.holder]
            stores.discard(queue.store)
            if not stores:
                del self._held_by[queue.holder]
        queue.holder = holder
        if holder:
            self._held_by.setdefault(holder, set()).add(queue.store)

    def committed(self, records: Iterable[Record | None]) -> None:
        """Note that these records were committed: if one of them frees the epoch of a store, give the turn to the first
        caller in the store's queue.
        """
        if not self._queues:
            return
        for record in records:
            if isinstance(record, Store):
                queue = self._queues.get(record.name)
                occupant = record.epoch_session or (BARRED if record.stopped is not None else "")
                if queue is not None and queue.holder != occupant:
                    self.held(queue, occupant)
                    if occupant == BARRED:
                        for place in queue.places.values():
                            place.wake()  # so that each caller learns of the stop
                    if not record.epoch_session:
                        queue.call()
            elif isinstance(record, Session) and record.ended:
                for store in tuple(self._held_by.get(record.id, ())):
                    self.held(self._queues[store], "")
                    self._queues[store].call()
                self.heard_of(record.id)

    def heard_of(self, session: str) -> None:
        """Wake the waiting callers of a session that was renewed or has ended, so that they check again."""
        for place in self._of_session.get(session, ()):
            place.wake()

    def end(self) -> None:
        """Wake all waiting callers, because leadership is over and no epoch is granted here any more."""
        for queue in self._queues.values():
            for place in queue.places.values():
                place.wake()

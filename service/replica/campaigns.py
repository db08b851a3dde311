"""Who waits for the epoch of a store: a line for each store, of which the first alone is called when it is free.

A commit that frees no epoch wakes nobody here, and one that does wakes one. Whoever was called and does not take the
epoch lets the next one be called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count

from sortedcontainers import SortedDict

from service.rules.records import Record, Session, Store


class CampaignPlace:
    """A place in the line of a store. ``called``: the epoch is free, and it is this one's turn. ``asked_at_end``: the
    session has ended, and its caller has asked since, to be told so.
    """

    def __init__(self, line: _Line, number: int, session: str) -> None:
        self.session = session
        self.line = line
        self.number = number
        self.called = False
        self.asked_at_end = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Let who waits here look."""
        self._woken.set()

    async def wait(self, seconds: float) -> None:
        """Return when it is woken, or after so many seconds."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._woken.clear()


class _Line:
    """``holder`` is the session that was seen to hold the epoch, "" for none."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.holder = ""
        self.places: SortedDict[int, CampaignPlace] = SortedDict()

    def call(self, behind: int = -1) -> None:
        """Call the first, or the first behind that number."""
        number = next(self.places.irange(behind, inclusive=(False, True)), None)
        if number is not None:
            place = self.places[number]
            place.called = True
            place.wake()


class Campaigns:
    """The lines of all stores."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._held_by: dict[str, set[str]] = {}
        self._of_session: dict[str, set[CampaignPlace]] = {}
        self._numbers = count()

    @contextmanager
    def place(self, store: str, session: str) -> Iterator[CampaignPlace]:
        """A place at the end of the line, for as long as it is waited in."""
        line = self._lines.get(store)
        if line is None:
            line = self._lines[store] = _Line(store)
        place = CampaignPlace(line, next(self._numbers), session)
        line.places[place.number] = place
        self._of_session.setdefault(session, set()).add(place)
        try:
            yield place
        finally:
            self._leave(place)

    def _leave(self, place: CampaignPlace) -> None:
        line = place.line
        del line.places[place.number]
        of_session = self._of_session[place.session]
        of_session.discard(place)
        if not of_session:
            del self._of_session[place.session]
        if not line.places:
            self.held(line, "")
            del self._lines[line.store]
        elif place.called:
            line.call()

    def pass_over(self, place: CampaignPlace) -> None:
        """It cannot take the epoch now: call the next."""
        if place.called:
            place.called = False
            place.line.call(place.number)

    def held(self, line: _Line, holder: str) -> None:
        """This session holds the epoch of the line's store, "" for nobody."""
        if line.holder == holder:
            return
        if line.holder:
            stores = self._held_by[line.holder]
            stores.discard(line.store)
            if not stores:
                del self._held_by[line.holder]
        line.holder = holder
        if holder:
            self._held_by.setdefault(holder, set()).add(line.store)

    def landed(self, records: Iterable[Record | None]) -> None:
        """These records were committed."""
        if not self._lines:
            return
        for record in records:
            if isinstance(record, Store):
                line = self._lines.get(record.name)
                if line is not None and line.holder != (record.epoch_session or ""):
                    self.held(line, record.epoch_session or "")
                    if not record.epoch_session:
                        line.call()
            elif isinstance(record, Session) and record.ended:
                for store in tuple(self._held_by.get(record.id, ())):
                    self.held(self._lines[store], "")
                    self._lines[store].call()
                self.heard_of(record.id)

    def heard_of(self, session: str) -> None:
        """The session was renewed, or has ended: who waits for it looks."""
        for place in self._of_session.get(session, ()):
            place.wake()

    def end(self) -> None:
        """Leadership is over: nothing is granted here any more."""
        for line in self._lines.values():
            for place in line.places.values():
                place.wake()

"""A client's place among the events of one job, which a leader reads from the job's stored history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from milepost_server.journal.events import EventsGone, LatestEvents, Place
from milepost_server.memory.state import State
from milepost_server.rules.events import Event
from milepost_server.rules.job_events import EventsDropped, events_after


class JobWatch:
    """A client's place among the events of one job, used like a `Watch` on a store. ``news`` is set when there may be
    more for the client.

    Nothing is kept for the client: the committed records have the events, and ``latest`` knows up to which revision.
    """

    def __init__(self, latest: LatestEvents, state: State, job: str, place: Place, news: asyncio.Event) -> None:
        self.place = place
        """The place up to which the client knows every event of the job."""
        self.news = news
        self._latest = latest
        self._state = state
        self._job = job

    @property
    def final(self) -> bool:
        """Whether no event will follow those that `take` returns now, because the leader admits no further change."""
        return self._latest.final

    @property
    def ended(self) -> bool:
        """Whether the leadership is over."""
        return self._latest.ended

    def take(self, most: int) -> list[Event]:
        """Return the next events, ``most`` of them at most, and move the client's place after them. If there are none,
        move it to the latest revision. Raises `EventsGone` if events after the place are not kept any more.
        """
        taken = self._after(most)
        self.place = Place(*taken[-1].place) if taken else Place(self._latest.revision)
        return taken

    def check(self) -> None:
        """Raise `EventsGone` unless all events after the place are kept."""
        self._after(0)

    def _after(self, most: int) -> list[Event]:
        latest = self._latest
        if self.place.revision > latest.revision:
            raise EventsGone(f"this leader has not come to {self.place}")
        try:
            return events_after(self._state, self._job, self.place, latest.known_from, most)
        except EventsDropped as error:
            raise EventsGone(f"the events of the job {self._job!r} after {self.place} are not kept: {error}") from error


@contextmanager
def watch_job(latest: LatestEvents, state: State, job: str, after: Place | None) -> Iterator[JobWatch]:
    """Return a watch on a job, which begins at the place ``after``, or now if that is None. It ends with the block.

    ``state`` has the committed records of the leadership to which ``latest`` belongs. Raises `EventsGone`.
    """
    with latest.news_of_history(job) as news:
        watch = JobWatch(latest, state, job, Place(latest.revision) if after is None else after, news)
        watch.check()
        yield watch

"""The operations to watch a store or a job: its events from a place on, while the client reads and this replica
leads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal import EventsGone, JobWatch, Journal, Place, Reading, Watch, watch_job
from milepost_server.model.records import Store
from milepost_server.operations.handles import check_is_here, store_in
from milepost_server.rules.events import Event

MOST_WATCHES: Final = 4096
"""The most watches of all clients at the same time. A server with few connections has fewer (`Connections`)."""

_CLIENTS_PART: Final = 4
"""The most watches of one client are the most of all clients divided by this number. A deployment without tokens counts
the watches of each address.
"""

_BATCH: Final = 64


class WatchEnded(Exception):
    """Raised when a watch ends. ``reason`` is the word for the cause that the client is told."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RunningWatch:
    """A running watch on one store or job, which began at the place ``begin``, and the term of the leader that serves
    it.
    """

    def __init__(self, journal: Journal, watch: Watch | JobWatch, store: str) -> None:
        self._store = store
        self.begin = watch.place
        self.term = journal.term
        self._journal = journal
        self._watch = watch
        self._hung_up = False

    @property
    def place(self) -> Place:
        """The place up to which `next` has returned every event."""
        return self._watch.place

    async def next(self, seconds: float) -> Sequence[Event]:
        """Return the next events; none if there are none within ``seconds``.

        Raises `WatchEnded` once the client has hung up or fallen behind, or this replica does not lead any more. After
        an orderly end of the leadership, the events of the last changes are returned before.
        """
        watch = self._watch
        watch.news.clear()
        events = self._take()
        if not (events or watch.final):
            with suppress(TimeoutError):
                await asyncio.wait_for(watch.news.wait(), seconds)
            events = self._take()
        if not events and watch.final:
            raise WatchEnded("leader-changes")
        if not events and self._is_elsewhere():
            raise WatchEnded("elsewhere")
        return events

    def _is_elsewhere(self) -> bool:
        """Return whether the job was moved to another cell, where its events are from now on."""
        state = self._journal.state_if_leading()
        record = None if state is None else state.store(self._store)
        return isinstance(record, Store) and record.elsewhere is not None

    def hang_up(self) -> None:
        """End the watch, because the client is gone or has ended its sending side."""
        self._hung_up = True
        self._watch.news.set()

    def _take(self) -> Sequence[Event]:
        """Return the events that are there. A leader whose lease is in doubt shows nothing more, except for what it
        committed before an orderly end.
        """
        watch = self._watch
        if self._hung_up:
            raise WatchEnded("hung-up")
        if not watch.final and (watch.ended or not self._journal.lease_holds()):
            raise WatchEnded("leader-changes")
        try:
            return watch.take(_BATCH)
        except EventsGone as error:
            raise WatchEnded("compacted") from error


class WatchOperations:
    """Opens watches, and bounds their number."""

    def __init__(self, journal: Journal, most: int = MOST_WATCHES) -> None:
        self._journal = journal
        self._most = most
        self._most_of_client = max(1, most // _CLIENTS_PART)
        self._open: Counter[str] = Counter()

    @contextmanager
    def watch(self, client: str, store: str, after: Place | None) -> Iterator[RunningWatch]:
        """Return a watch of ``client`` on a store, which begins at the place ``after``, or now if that is None. It ends
        with the block.

        Raises ``too-many-requests``, ``no-leader`` and ``corrupt`` problems, and a ``compacted`` problem if events
        after the place are not known here: the client reads the store anew, and watches from the revision of what it
        has read, which is that in the problem or a later one.
        """
        with self._counted(client, "the store") as reading:
            store_in(reading.view, store)
            with self._journal.events().watch(store, after) as watch:
                yield RunningWatch(self._journal, watch, store)

    @contextmanager
    def watch_job(self, client: str, job: str, after: Place | None) -> Iterator[RunningWatch]:
        """Return a watch of ``client`` on the job that has the store ``job``, like `watch`. Its events are the entries
        of the job's history, so a client that gets ``compacted`` reads the history anew.

        Raises a ``not-exist`` problem if there is no such store, and the problems of `watch` but for ``corrupt``.
        """
        with self._counted(client, "the history of the job") as reading:
            state = reading.view.state
            if not state.has_store(job):
                raise problem(Code.NOT_EXIST, f"there is no job {job!r}")
            check_is_here(state, job)
            with watch_job(self._journal.events(), state, job, after) as watch:
                yield RunningWatch(self._journal, watch, job)

    @contextmanager
    def _counted(self, client: str, what: str) -> Iterator[Reading]:
        """Count a watch of ``client`` for as long as the block runs, and return the committed state. If the block finds
        the events gone, that is a ``compacted`` problem, which names ``what`` to read anew.
        """
        if self._open.total() >= self._most or self._open[client] >= self._most_of_client:
            raise problem(Code.TOO_MANY_REQUESTS, "too many watches are open at the same time")
        reading = self._journal.read()
        self._open[client] += 1
        try:
            yield reading
        except EventsGone as error:
            detail = f"{error}: read {what} anew, and watch from the revision of what you read"
            raise problem(Code.COMPACTED, detail, extras={"revision": reading.revision}) from error
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]

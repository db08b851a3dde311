"""Reports to the history of a job how many rows each of its batches has read, from a thread of its own.

Spark knows the number once a batch is committed. The thread collects it and sends it while the next batch runs, so no
batch waits. What a driver cannot report any more, because it was killed or its service was away for too long, stays
unknown.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.errors import Fenced, MilepostError, SessionLost
from milepost.wire import MAX_ROWS

_log = logging.getLogger("milepost.jobs")

REQUEST_SECONDS: Final = 5.0
"""The most seconds that one request of these reports takes."""
_BETWEEN_SECONDS: Final = 2.0
_JOIN_SECONDS: Final = 10.0


class BatchRows(NamedTuple):
    """The number of rows that a batch of the query in ``directory`` has read."""

    directory: str
    batch: int
    rows: int


class RowsStore(Protocol):
    """The store of a job, under the epoch of its driver."""

    def report_rows(self, directory: str, rows: Mapping[int, int], *, timeout: float | None = None) -> int: ...


class RowReports:
    """The reports of a driver. ``collect`` returns the batches since its last call; it may raise `MilepostError`."""

    def __init__(self, store: RowsStore, collect: Callable[[], Iterable[BatchRows]]) -> None:
        self._store = store
        self._collect = collect
        self._unsent: dict[str, dict[int, int]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="milepost-rows", daemon=True)
        self._starts = threading.Lock()

    def start(self) -> None:
        """Begin to report; a second call changes nothing."""
        with self._starts:
            if self._thread.ident is None and not self._closing.is_set():
                self._thread.start()

    def close(self) -> None:
        """Report what was collected last, and end. Call this after the queries have ended, before the driver resigns.
        The call takes at most `_JOIN_SECONDS`.
        """
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        going_on = True
        while going_on:
            going_on = not self._closing.wait(_BETWEEN_SECONDS)
            try:
                self.report()
            except (Fenced, SessionLost):
                return  # another driver leads, and this one ends and says so
            except MilepostError as error:
                _log.info("the service takes no numbers of rows, and the history will not have them: %s", error)
                return

    def report(self) -> None:
        """Send what is new, and what is unsent because of an outage, in one request for each directory. To send it
        again is safe, since the service enters each number once. Of each directory, the newest `MAX_ROWS` batches are
        kept.

        Raises `MilepostError` if the service refuses a request.
        """
        try:
            for directory, batch, rows in self._collect():
                self._unsent[directory] = newest({**self._unsent.get(directory, {}), batch: rows})
            for directory, unsent in list(self._unsent.items()):
                self._store.report_rows(directory, unsent, timeout=REQUEST_SECONDS)
                del self._unsent[directory]
        except OUTAGES_OR_DOUBT as error:
            _log.debug("the rows of the last batches are not reported yet: %s", error)


def newest(rows: Mapping[int, int]) -> dict[int, int]:
    """Return the `MAX_ROWS` newest batches of ``rows``, which maps batches to their numbers of rows."""
    return {batch: rows[batch] for batch in sorted(rows)[-MAX_ROWS:]}

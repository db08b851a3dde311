"""Reports to the history of a job how many rows each of its batches has read, from a thread of its own.

Spark knows the number once a batch is committed. The thread asks for it and sends it while the next batch runs, so no
batch waits. What a driver cannot report any more, because it was killed or its service was away for too long, stays
unknown.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.errors import MilepostError
from milepost.spark.driver.calls import describe
from milepost.wire import MAX_ROWS

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_BETWEEN_SECONDS: Final = 2.0
_REQUEST_SECONDS: Final = 5.0
_JOIN_SECONDS: Final = 10.0
_DIRECTORY: Final = "checkpoint"
_RAN: Final = "addBatch"
"""The step that Spark's progress lists for a batch that it ran, and not for a look that found no new input."""


class RowsStore(Protocol):
    """The store of a job, under the epoch of its driver."""

    def report_rows(self, directory: str, rows: Mapping[int, int], *, timeout: float | None = None) -> int: ...


class RowReports:
    """The reports of the query of a job, which ``query`` returns once it has started."""

    def __init__(self, store: RowsStore, query: Callable[[], StreamingQuery | None]) -> None:
        self._store = store
        self._query = query
        self._unsent: dict[int, int] = {}
        self._newest = -1
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="milepost-rows", daemon=True)
        self._starts = threading.Lock()

    def start(self) -> None:
        """Begin to report; a second call changes nothing."""
        with self._starts:
            if self._thread.ident is None and not self._closing.is_set():
                self._thread.start()

    def close(self) -> None:
        """Report what the query has done last, and end. Call this after the query has ended, before the driver
        resigns. The call takes at most `_JOIN_SECONDS`.
        """
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        going_on = True
        while going_on:
            going_on = not self._closing.wait(_BETWEEN_SECONDS)
            try:
                self.collect()
                self.send()
            except (Py4JError, PySparkException, ConnectionError) as error:
                _log.info("Spark does not say how many rows the last batches read: %s", describe(error))
            except MilepostError as error:
                _log.info("the service takes no numbers of rows, and the history will not have them: %s", error)
                return

    def collect(self) -> None:
        """Ask Spark for the rows of the batches since the last call. The newest `MAX_ROWS` unsent ones are kept."""
        query: Any = self._query()
        if query is None:
            return
        known = query._jsq.recentProgress()  # pyspark would convert all of the last 100 each time
        for place in range(len(known) - 1, -1, -1):
            progress = known[place]
            batch = progress.batchId()
            if batch <= self._newest:
                break
            if progress.durationMs().containsKey(_RAN):
                self._unsent[batch] = max(0, progress.numInputRows())
        newest = sorted(self._unsent)[-MAX_ROWS:]
        self._unsent = {batch: self._unsent[batch] for batch in newest}
        self._newest = max((self._newest, *newest))

    def send(self) -> None:
        """Send what is unsent. After an outage, the next call sends it again, which is safe: the service enters each
        number once. Raises `MilepostError` if the service refuses it.
        """
        if not self._unsent:
            return
        try:
            self._store.report_rows(_DIRECTORY, self._unsent, timeout=_REQUEST_SECONDS)
        except OUTAGES_OR_DOUBT as error:
            _log.debug("rows of %d batches are not reported yet: %s", len(self._unsent), error)
            return
        self._unsent = {}

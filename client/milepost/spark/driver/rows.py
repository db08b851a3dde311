"""Asks Spark how many rows the batches of a job's query have read, for the reports to the history of the job."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from milepost.rows import BatchRows
from milepost.spark.driver.calls import describe

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_DIRECTORY: Final = "checkpoint"
_RAN: Final = "addBatch"
"""The step that Spark's progress lists for a batch that it ran, and not for a look that found no new input."""


class QueryRows:
    """The rows of the batches of the query of a job, which ``query`` returns once it has started."""

    def __init__(self, query: Callable[[], StreamingQuery | None]) -> None:
        self._query = query
        self._newest = -1

    def collect(self) -> list[BatchRows]:
        """Return the batches since the last call, of the last hundred; none if Spark does not answer."""
        try:
            return self._ask()
        except (Py4JError, PySparkException, ConnectionError) as error:
            _log.info("Spark does not say how many rows the last batches read: %s", describe(error))
            return []

    def _ask(self) -> list[BatchRows]:
        query: Any = self._query()
        if query is None:
            return []
        found: list[BatchRows] = []
        known = query._jsq.recentProgress()  # pyspark would convert all of the last 100 each time
        for place in range(len(known) - 1, -1, -1):
            progress = known[place]
            batch = progress.batchId()
            if batch <= self._newest:
                break
            if progress.durationMs().containsKey(_RAN):
                found.append(BatchRows(_DIRECTORY, batch, max(0, progress.numInputRows())))
        self._newest = max((self._newest, *(each.batch for each in found)))
        return found

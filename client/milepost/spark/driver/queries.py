"""Finds the queries of a job, stops them, and waits for their end."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from milepost.core.checkpoint_location import CheckpointLocation
from milepost.errors import MilepostError, WrongCheckpoint
from milepost.spark.driver.calls import describe, spark_may_be_gone, within
from milepost.spark.driver.running import active_below, check_root, checkpoint_root, committed_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)
_ASKED_SECONDS = 10.0
_COMMIT_SECONDS = 5.0
_POLL_SECONDS = 0.02


class JobQueries:
    """The queries of a job: the one that `Job.awaitTermination` waits for, and all queries of the Spark session whose
    checkpoint is in the job's tree. Milepost does not stop queries with a checkpoint elsewhere.
    """

    def __init__(self, spark: SparkSession, location: CheckpointLocation) -> None:
        self._spark = spark
        self._location = location.url
        self._tree = location.url.rpartition("/")[0]
        self.awaited: StreamingQuery | None = None

    def await_one(self, query: StreamingQuery) -> None:
        """Record that the program waits for ``query``.

        Raises `WrongCheckpoint`, and stops the query, if its checkpoint is not the job's: the epoch does not fence such
        a query, and no later driver would continue it.
        """
        if query is self.awaited:
            return
        try:
            check_root(checkpoint_root(query), self._location)
        except WrongCheckpoint:
            query.stop()
            raise
        self.awaited = query

    def any(self) -> bool:
        """Return whether the job has a query to stop. If the program waits for none, this asks Spark; if Spark does not
        answer within `_ASKED_SECONDS`, the result is False.
        """
        if self.awaited is not None:
            return True
        try:
            return bool(within(_ASKED_SECONDS, self._found))
        except (Py4JError, ConnectionError, TimeoutError) as error:
            _log.warning(
                "Spark does not say whether it runs a query of this job, going on as without one: %s", describe(error)
            )
            return False

    def stop(self) -> None:
        """Stop the queries. If stopping one fails, the others are still asked to stop."""
        with ExitStack() as stops:
            for query in self._found():
                stops.callback(query.stop)

    def stop_quietly(self) -> None:
        """Stop the queries, and log if Spark does not answer."""
        with spark_may_be_gone():
            self.stop()

    def _found(self) -> list[StreamingQuery]:
        found = active_below(self._spark, self._tree)
        if self.awaited is not None and self.awaited.runId not in [query.runId for query in found]:
            found.append(self.awaited)
        return found


class Awaiting:
    """Waits for the end of queries, or until `release` is called. A separate thread calls Spark, because the call never
    returns if the JVM hangs.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._released: MilepostError | None = None

    def end_of(self, query: StreamingQuery, timeout: int | None) -> bool | None:
        """Wait for ``query`` as ``query.awaitTermination`` does: return its result or raise its exception. If `release`
        is called first, raise the error that `release` got.
        """
        ended: list[bool | None] = []
        failed: list[BaseException] = []

        def wait() -> None:
            try:
                ended.append(query.awaitTermination() if timeout is None else query.awaitTermination(timeout))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                failed.append(error)
            with self._changed:
                self._changed.notify_all()

        threading.Thread(target=wait, name="milepost-await", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: ended or failed or self._released)
            if self._released is not None:
                raise self._released
            if failed:
                raise failed[0]
            return ended[0]

    def release(self, error: MilepostError) -> None:
        """End the present and all later waits of `end_of` by raising ``error`` from them."""
        with self._changed:
            self._released = error
            self._changed.notify_all()


def let_commit(query: StreamingQuery, batch: int) -> None:
    """Wait at most `_COMMIT_SECONDS` for Spark to commit ``batch``, so that the next driver need not evaluate the batch
    again.
    """
    until = time.monotonic() + _COMMIT_SECONDS
    while query.isActive and committed_by(query) < batch and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)

"""A driver as seen by those who may have to stop it: a signal, a lost session, the watch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from milepost.errors import BatchTimeout, JvmLost, MilepostError, SparkDriverError
from milepost.session import Session
from milepost.spark.driver.liveness import end_jvm, jvm_has_ended
from milepost.spark.driver.standby import Standby
from milepost.spark.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_STOP_SECONDS = 10.0


class Driver:
    """A driver that first stands by, and then has a job to run."""

    def __init__(self, spark: SparkSession) -> None:
        self.job: Job | None = None
        self._standby: Standby | None = None
        self._spark = spark
        self._error: SparkDriverError | None = None

    @contextmanager
    def standing_by(self, standby: Standby) -> Iterator[Standby]:
        """Keep ``standby`` while the driver stands by and leads; resign on leaving the block."""
        self._standby = standby
        try:
            yield standby
        finally:
            standby.resign()

    def running(self) -> bool:
        """Return whether there is a query to stop, or will be one."""
        return self.job is not None and self.job.running

    def stop(self) -> None:
        """Stop the query between two batches."""
        if self.job is not None:
            with _spark_may_be_gone():
                self.job.stop()

    def lost(self, session: Session, _reason: str) -> None:
        """Stop the query at once if ``session``, which was lost, is the one that leads it."""
        if self.job is not None and self._standby is not None and session is self._standby.session:
            with _spark_may_be_gone():
                self.job.abandon()

    def batch(self) -> tuple[int, float] | None:
        """Return the batch that is running, and for how many seconds; None if none is running."""
        return None if self.job is None else self.job.batch

    def overdue(self) -> float:
        """Return for how many seconds a batch has continued after the stop that interrupted it; 0 if there is none."""
        return 0.0 if self.job is None else self.job.overdue

    def give_up(self, error: SparkDriverError) -> None:
        """End the driver at once because of an error that keeps it from making progress; nothing that Spark still does
        counts.

        The order is: nothing more can be published, then a standby can take over, then the code that waits here for
        Spark is released. A step that fails does not prevent those after it.
        """
        self._error = error
        _log.error("this driver makes no progress, giving up the epoch so that a standby can take over: %s", error)
        job, stopped = self.job, False
        with ExitStack() as steps:  # runs them in reverse order
            if job is not None:
                steps.callback(job.release)
            steps.callback(lambda: None if stopped else end_jvm(self._spark))
            if self._standby is not None:
                steps.callback(self._standby.withdraw)
            if job is not None:
                job.give_up(error)
                stopped = isinstance(error, BatchTimeout) and job.stop_within(_STOP_SECONDS)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Raise the error for which the driver was given up, in place of errors that only followed from it."""
        try:
            yield
        except (MilepostError, PySparkException, Py4JError, ConnectionError) as error:
            if self._error is None and isinstance(error, (Py4JNetworkError, ConnectionError)):
                if jvm_has_ended(self._spark):
                    raise JvmLost(f"Spark's JVM has ended: {error}") from error
                raise
            if self._error is None or error is self._error:
                raise
            raise self._error from error
        if self._error is not None:
            raise self._error


@contextmanager
def _spark_may_be_gone() -> Iterator[None]:
    """Log, instead of raise, that Spark has ended: the query is stopped then, and nobody waits for this thread."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        _log.warning("Spark does not answer any more, leaving the query as it is: %s", error)

"""A driver as those see it who may have to stop it: a signal, a lost session, the watch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from milepost.errors import BatchTimeout, JvmLost, MilepostError, SparkDriverError
from milepost.session import Session
from milepost.spark.job import Job
from milepost.spark.liveness import end_jvm, jvm_has_ended
from milepost.spark.standby import Standby

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_STOP_SECONDS = 10.0


class Driver:
    """Stands by and then has a job."""

    def __init__(self, spark: SparkSession) -> None:
        self.job: Job | None = None
        self._standby: Standby | None = None
        self._spark = spark
        self._error: SparkDriverError | None = None

    @contextmanager
    def standing_by(self, standby: Standby) -> Iterator[Standby]:
        """For as long as it stands by and leads; leaving resigns."""
        self._standby = standby
        try:
            yield standby
        finally:
            standby.resign()

    def running(self) -> bool:
        """Whether there is a query to stop, or will be."""
        return self.job is not None and self.job.running

    def stop(self) -> None:
        """Stop the query between two batches."""
        if self.job is not None:
            with _spark_may_be_gone():
                self.job.stop()

    def lost(self, session: Session, _reason: str) -> None:
        """Stop the query at once when the session that leads it is lost."""
        if self.job is not None and self._standby is not None and session is self._standby.session:
            with _spark_may_be_gone():
                self.job.abandon()

    def batch(self) -> tuple[int, float] | None:
        """The batch that is being run and for how many seconds; None without one."""
        return None if self.job is None else self.job.batch

    def overdue(self) -> float:
        """For how many seconds a batch has gone on after the stop that interrupted it; 0 without one."""
        return 0.0 if self.job is None else self.job.overdue

    def give_up(self, error: SparkDriverError) -> None:
        """End at once, for a reason that keeps the driver from getting on: what Spark does any more counts for nothing.

        First nothing can be published, then a standby goes on, and then whoever waits here for Spark is let go. A step
        that fails holds up none of those after it.
        """
        self._error = error
        _log.error("giving up the epoch, so that a standby goes on: %s", error)
        job, stopped = self.job, False
        with ExitStack() as steps:  # the last one comes first
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
        """Raise what the driver was given up for in place of all that only followed from it."""
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
    """For threads of our own, which nobody waits for: a query whose JVM has ended is stopped."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        _log.warning("Spark does not answer any more, the query is left as it is: %s", error)

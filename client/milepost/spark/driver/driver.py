"""The ways to stop a driver, for those who may have to: a SIGTERM handler, a lost session, the watch over progress."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from milepost.errors import BatchTimeout, JvmLost, MilepostError, SparkDriverError
from milepost.spark.driver.calls import describe, forget_connection, spark_may_be_gone
from milepost.spark.driver.liveness import end_jvm, jvm_ends
from milepost.spark.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_STOP_SECONDS = 10.0
"""A query that has not stopped after so long is ended together with Spark's JVM."""


class Driver:
    """One run of `lead`, which first stands by and then leads a job.

    `lead` hands its methods to `on_sigterm`, `Standby` and `Watch`, which call them from threads of their own.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._one_changes = threading.Lock()
        self._job: Job | None = None
        self._error: SparkDriverError | None = None

    def lead(self, job: Job) -> None:
        """Let ``job`` be the one to stop from now on. Raises the error for which the driver was given up before."""
        with self._one_changes:
            if self._error is not None:
                raise self._error
            self._job = job

    def running(self) -> bool:
        """Return whether there is a query to stop, or will be one."""
        return self._job is not None and self._job.running

    def forget_calls(self) -> None:
        """Let the calls to Spark that come after an exception not meet one that it has cut short."""
        forget_connection(self._spark)

    def stop(self) -> None:
        """Stop the query between two batches."""
        if self._job is not None:
            with spark_may_be_gone():
                self._job.stop()

    def abandon(self) -> None:
        """Stop the query at once: the session is lost."""
        if self._job is not None:
            with spark_may_be_gone():
                self._job.abandon()

    def batch(self) -> tuple[int, float] | None:
        """Return the batch that is running, and for how many seconds; None if none is running."""
        return None if self._job is None else self._job.batch

    def overdue(self) -> float:
        """Return for how many seconds a batch has gone on although a stop interrupted it; 0 if none has."""
        return 0.0 if self._job is None else self._job.overdue

    def fail(self, cancel: Callable[[], None], error: SparkDriverError) -> None:
        """End the driver at once, because ``error`` keeps it from making progress.

        First, nothing more can be published, so whatever Spark still does counts for nothing; if a batch took too long,
        its query is also asked to stop. Then ``cancel`` ends the session, and a standby can take over. Then Spark's JVM
        is killed, unless the query has stopped. At last, `Job.awaitTermination` raises ``error``. A step that fails
        does not prevent those after it.
        """
        with self._one_changes:
            self._error, job = error, self._job
        _log.error("this driver makes no progress, giving up the epoch so that a standby can take over: %s", error)
        stopped = False
        with ExitStack() as steps:  # runs them in reverse order
            if job is not None:
                steps.callback(job.release)
            steps.callback(lambda: None if stopped else end_jvm(self._spark))
            steps.callback(cancel)
            if job is not None:
                job.fail(error)
                stopped = isinstance(error, BatchTimeout) and job.stop_within(_STOP_SECONDS)

    @contextmanager
    def raising_cause(self) -> Iterator[None]:
        """Raise, at the end of the block, the error for which the driver was given up.

        It replaces errors that only followed from it. Where the driver was not given up and Spark failed, or the
        connection to it did, because the JVM ends, that is raised as `JvmLost`; and if a newer driver leads, whatever
        Java's code raised (the start of a query does) as `Fenced`.
        """
        try:
            yield
        except (MilepostError, PySparkException, Py4JError, ConnectionError) as error:
            if self._error is None and not isinstance(error, MilepostError) and jvm_ends(self._spark):
                raise JvmLost(f"Spark's JVM has ended: {describe(error)}") from error
            if self._error is None and self._job is not None and isinstance(error, Py4JJavaError):
                self._job.raise_if_fenced(error)
            if self._error is None or error is self._error:
                raise
            raise self._error from error
        if self._error is not None:
            raise self._error

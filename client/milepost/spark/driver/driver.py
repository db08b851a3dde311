"""The ways to stop a driver: after SIGTERM, after the loss of its session, and when it makes no progress."""

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
"""A query that has not stopped after this many seconds is ended together with Spark's JVM."""


class Driver:
    """One run of `lead`, which first stands by and then leads a job; its methods stop the job.

    Other threads may call them, such as those of `on_sigterm`, `Standby` and `Watch`.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._one_changes = threading.Lock()
        self._job: Job | None = None
        self._error: SparkDriverError | None = None

    def lead(self, job: Job) -> None:
        """Record that this driver now leads ``job``, so that the other methods apply to this job. If `fail` was called
        before, raise its error instead.
        """
        with self._one_changes:
            if self._error is not None:
                raise self._error
            self._job = job

    def running(self) -> bool:
        """Return whether there is something to stop: the job has a query, or a query may start because the program has
        made its ``foreachBatch`` function.
        """
        return self._job is not None and self._job.running

    def forget_calls(self) -> None:
        """Make this thread's next call to Spark's JVM use a new connection, because an exception may have cut short a
        call on the old one.
        """
        forget_connection(self._spark)

    def stop(self) -> None:
        """Stop the query between two batches."""
        if self._job is not None:
            with spark_may_be_gone():
                self._job.stop()

    def abandon(self) -> None:
        """Stop the query at once, because the session is lost."""
        if self._job is not None:
            with spark_may_be_gone():
                self._job.abandon()

    def batch(self) -> tuple[int, float] | None:
        """Return the number of the running batch, and the seconds for which it has run; None if no batch runs."""
        return None if self._job is None else self._job.batch

    def overdue(self) -> float:
        """Return for how many seconds a batch has continued after a stop interrupted it; 0 if no batch has."""
        return 0.0 if self._job is None else self._job.overdue

    def fail(self, cancel: Callable[[], None], error: SparkDriverError) -> None:
        """End the driver at once, because ``error`` keeps it from making progress.

        First, the job publishes no more batches; if a batch took too long, its query is also asked to stop. Then
        ``cancel`` ends the session, and a standby can take over. Then Spark's JVM is killed, unless the query has
        stopped. At last, `Job.awaitTermination` raises ``error``. A step that fails does not prevent those after it.
        """
        with self._one_changes:
            self._error, job = error, self._job
        _log.error("this driver makes no progress, giving up the epoch so that a standby can take over: %s", error)
        stopped = False
        with ExitStack() as steps:  # the steps run in reverse order, even if one raises
            if job is not None:
                steps.callback(job.release)
            steps.callback(lambda: None if stopped else end_jvm(self._spark))
            steps.callback(cancel)
            if job is not None:
                job.fail(error)
                stopped = isinstance(error, BatchTimeout) and job.stop_within(_STOP_SECONDS)

    @contextmanager
    def raising_cause(self) -> Iterator[None]:
        """At the end of the block, raise the error that ended the driver in place of the errors that are consequences
        of that end.

        If `fail` was not called and Spark fails because its JVM ends, raise `JvmLost`. If a newer driver leads, raise
        `Fenced` in place of an exception from Java's code, such as that of starting a query.
        """
        try:
            yield
        except (MilepostError, PySparkException, Py4JError, ConnectionError) as error:
            is_stopping = self._job is not None and self._job.stopped
            failed = self._error is None and not isinstance(error, MilepostError)
            if failed and jvm_ends(self._spark, is_stopping=is_stopping):
                raise JvmLost(f"Spark's JVM has ended: {describe(error)}") from error
            if self._error is None and self._job is not None and isinstance(error, Py4JJavaError):
                self._job.raise_if_fenced(error)
            if self._error is None or error is self._error:
                raise
            raise self._error from error
        if self._error is not None:
            raise self._error

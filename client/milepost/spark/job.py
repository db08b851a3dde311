"""A job in the hands of its driver, from the grant of the epoch to its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import StreamingQueryException

from milepost.drivers.environment import ConnectionArguments
from milepost.errors import (
    Fenced,
    JvmLost,
    MilepostError,
    RecordUnreadable,
    SessionLost,
    SparkDriverError,
    UnsafeQuery,
    WrongCheckpoint,
)
from milepost.job_record import JobRecord
from milepost.rescaling import JobRescale
from milepost.rows import RowReports
from milepost.spark.batch import ExactlyOnce
from milepost.spark.driver.calls import describe, spark_may_be_gone, within
from milepost.spark.driver.queries import Awaiting, JobQueries, let_commit
from milepost.spark.driver.rows import QueryRows
from milepost.spark.guard import QueryGuard, warn_of_strangers
from milepost.spark.managed.published import ManagedState
from milepost.spark.output.claim import claim_beside
from milepost.spark.output.file_systems import SCHEME, HadoopFiles, LocalFiles
from milepost.spark.output.manifest import delete_expired
from milepost.spark.output.sink import TROUBLE, FilesSink, Transform, published_page
from milepost.spark.publishing import OwnFunction, Publish, Publisher
from milepost.spark.recovery import check_published, check_standstill
from milepost.spark.rescale import rescale
from milepost.spark.session_settings import SessionSettings
from milepost.spark.takeover import TakenOver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)
_CLOSE_SECONDS = 120.0


class Job:
    """One job under this driver's epoch, for one start of one query. `milepost.spark.lead` makes it.

    Methods that imitate Spark follow its naming style. Threads may share a job: one may call `stop` while another waits
    in `awaitTermination`.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        taken: TakenOver,
        settings: SessionSettings,
        connection: ConnectionArguments,
        grace: float,
        max_entries: int | None = None,
    ) -> None:
        self.recovery = taken.recovery
        self._spark = spark
        self._name = name
        self._session = taken.session
        self._pointer = taken.pointer
        self._location = taken.location
        self._settings = settings
        self._tree = taken.tree
        self._grace = grace
        self._max_entries = max_entries
        access = {**connection, "store": name, "epoch": taken.pointer.store.epoch}
        self._state = ManagedState(taken.pointer, taken.tree, access)
        self._function: ExactlyOnce | None = None
        self._queries = JobQueries(spark, taken.location)
        rows = QueryRows(lambda: (self._function and self._function.guard.query) or self._queries.awaited)
        self._rows = RowReports(taken.pointer.store, rows.collect)
        self._raised = False
        self._stopping = self._ended = self._stopped = False
        self._one_stops = threading.RLock()
        self._awaiting = Awaiting()
        self._given_up: SparkDriverError | None = None

    def __repr__(self) -> str:
        return f"<Job {self._name!r}, epoch {self.epoch}, published up to batch {self.published}>"

    @property
    def checkpointLocation(self) -> str:
        """The job's checkpoint location, the same for every driver; pass it to the query's option of the same name.

        Reading the property puts the Hadoop settings of this job and its epoch into the session, where another job that
        is led from the same session may have put its own. So read it where the query is started. Raises `UnsafeQuery`
        after the block of `lead`, because no query of the job may start then.
        """
        self._settings.place()
        return self._location.url

    @property
    def epoch(self) -> int:
        """This driver's epoch."""
        return self.recovery.epoch

    @property
    def published(self) -> int:
        """The last published batch; -1 before the first."""
        return self._pointer.record.published

    @property
    def manifest(self) -> Any:
        """The value that the publishing function returned for the last published batch."""
        return self._pointer.record.manifest

    @property
    def state(self) -> ManagedState:
        """The job's managed states, which `milepost.spark.stateful` processes."""
        return self._state

    def exactlyOnce(self, publish: Publish, *, beside: str | None = None) -> Callable[[DataFrame, int], None]:
        """Make the function for ``foreachBatch``: it calls ``publish(frame, context)`` and counts each batch as
        published once.

        The job record keeps the return value of ``publish`` (small JSON) with the batch. `BatchContext` says what is
        protected and what is not. The frame is evaluated once and persisted before ``publish`` sees it. ``beside`` is a
        directory, best that of the output, in which the job stores its identity; by it, a driver recognizes a service
        that does not know this job.

        Raises `UnsafeQuery` when called a second time, and if the job published with the other of `exactlyOnce` and
        `files` before; `WrongCheckpoint` if a query has committed batches in the checkpoint that were not published
        this way; `JobUnknown` if ``beside`` contains the identity of a different job with the same name.
        """
        return self._published_by(OwnFunction(publish), beside)

    def files(self, output: str, *, transform: Transform | None = None) -> Callable[[DataFrame, int], None]:
        """Make the function for ``foreachBatch`` that publishes Parquet files under ``output`` (any Hadoop file
        system): the rows of each batch, or of what ``transform(frame, context)`` returns for it.

        Readers use `read_published`, and see published batches only. Raises the errors of `exactlyOnce`; the first
        batch raises `UnsafeQuery` if the job published elsewhere before.

        Deletes the remaining files of expired batches, such as those that ``milepost expire`` expired. A failure to
        delete is logged.
        """
        warn_of_strangers(self._location, output, "job.files")
        hadoop = HadoopFiles(self._spark, self._location.settings)  # the session may hold the settings of another job
        function = self._published_by(FilesSink(hadoop, output, transform), beside=output)
        try:
            self._delete_expired()
        except (RecordUnreadable, *TROUBLE) as error:
            _log.warning("files of expired batches could not be deleted, they stay for now: %s", describe(error))
        return function

    def _published_by(self, publisher: Publisher, beside: str | None) -> ExactlyOnce:
        if self._function is not None:
            raise UnsafeQuery("one lead() serves one start of one query: a second query needs a store of its own")
        check_published(self.recovery, self.published)
        publisher.check(self._pointer.record)
        if beside is not None:
            hadoop = HadoopFiles(self._spark, self._location.settings)
            claim_beside(hadoop, beside, self._name, self._pointer.record)
        guard = QueryGuard(self._spark, self._location)
        self._rows.start()
        self._function = ExactlyOnce(publisher, self._pointer, self._tree, guard, self.recovery, self._state)
        return self._function

    def rescale(self, partitions: int) -> JobRescale:
        """Divide the state of the query's operators among so many partitions, by Spark's offline repartition, before
        the query starts. It counts as a whole or not at all, also if this driver dies meanwhile.

        Raises `UnsafeQuery` if this Spark or this state cannot be divided anew, `CheckpointDamaged` if the result is
        not whole, `JvmLost`, and the errors of the service.
        """
        if self._function is not None:
            raise UnsafeQuery("a rescale comes before the query: call job.rescale before job.files or job.exactlyOnce")
        if self.published >= 0:
            check_published(self.recovery, self.published)
        done = rescale(self._spark, self._name, self._pointer, self._tree, self.checkpointLocation, partitions)
        self.recovery = replace(self.recovery, resumes_at=done.batch + 1)
        return done

    def expire(self, *, before: int) -> None:
        """Let the batches below ``before`` that `files` published expire: readers no longer find them, and their files
        are deleted. The last published batch stays, so ``before`` is at most its number.

        The call first records the expiry in the job record, under this driver's epoch, and then deletes the files. If
        the deletion is interrupted, the next call completes it, whatever its ``before``. A program may call this while
        the query runs, also from the function of a batch. A reader that began before the call fails if it needs the
        deleted files.

        Raises `UnsafeQuery` if the job publishes in another way, ValueError for a batch that is not published, `Fenced`
        and the other errors of the service, and those of the file system.
        """
        record = self._pointer.record
        if published_page(record.manifest, record.published, first=record.first_output) is None:
            return
        if record.expiring(before, self.epoch).expired > record.expired:
            self._pointer.change(lambda current: current.expiring(before, self.epoch), JobRecord.expiry)
        self._delete_expired()

    def _delete_expired(self) -> None:
        """Delete the files of expired batches, also of those that a restore has abandoned."""
        record = self._pointer.record
        if not record.expired:
            return
        for manifest, published in ((record.manifest, record.published), *record.abandoned_output):
            newest = published_page(manifest, published)
            if newest is not None:
                output = str(manifest["output"])
                files = LocalFiles() if output.startswith(SCHEME) else HadoopFiles(self._spark, self._location.settings)
                delete_expired(files, output, newest, record.expired)
        if record.forgetting() is not record:
            self._pointer.change(lambda current: current.forgetting())

    def awaitTermination(self, query: StreamingQuery, timeout: int | None = None) -> bool | None:
        """Wait like ``query.awaitTermination``.

        Raises the error that ended the query: `Fenced`, `SessionExpired`, `NoProgress`, `JvmLost`, `BatchTimeout` or
        another `MilepostError` as itself, otherwise Spark's StreamingQueryException, with the publishing function's own
        exception as its cause. It stops a query whose checkpoint is not at `checkpointLocation` (`WrongCheckpoint`).
        """
        try:
            self._queries.await_one(query)
            self._rows.start()
            if self._stopping:  # stop() may have come before the query started, and found none
                self._stop()
            ended = self._awaiting.end_of(query, timeout)
        except WrongCheckpoint:
            self._raised = True
            raise
        except (Py4JNetworkError, ConnectionError) as error:
            lost = self._given_up or JvmLost(f"Spark's JVM has ended: {error}")
            self.fail(lost)
            raise lost from error
        except StreamingQueryException as error:
            self._raise_own(error)
            raise error from (self._function.failure if self._function else None)
        if timeout is not None and not ended:
            return False
        self._ended = True
        self._raise_own(None)
        return ended

    @property
    def running(self) -> bool:
        """Return whether there is something to stop: the job has a query, or a query may start because the program has
        made its ``foreachBatch`` function.
        """
        return self._function is not None or self._queries.any()

    @property
    def stopped(self) -> bool:
        """Whether `stop` or SIGTERM asked the query to end before it ended by itself.

        Input may then remain, even if the query had the trigger ``availableNow``.
        """
        return self._stopped

    def stop(self) -> None:
        """Stop the query between two batches, and all others of the session whose checkpoint is in the job's tree.
        Returns once they have ended.

        The batch that is being published may finish within the ``grace`` of `lead`. After that it is interrupted, does
        not count, and the next driver runs it again. Spark's own ``query.stop()`` interrupts it at once. The function
        of a batch may call this, too: no other batch begins then, and the call returns without waiting for its own
        batch to end.
        """
        self._stopped = self._stopped or not self._ended
        self._stop()

    def _stop(self) -> None:
        self._stopping = True
        if self._function is not None and self._function.gate.inside:
            self._function.gate.shut()
            threading.Thread(target=spark_may_be_gone()(self._stop), name="milepost-stop", daemon=True).start()
            return
        with self._one_stops:  # a second caller waits until the first has stopped the queries
            published = self._function is not None and self._function.gate.close(self._grace)
            own = self._function.guard.query if self._function is not None else None
            if published and own is not None:
                let_commit(own, self.published)
            self._queries.stop()

    @property
    def batch(self) -> tuple[int, float] | None:
        """The number of the running batch, and the seconds for which it has run; None if no batch runs."""
        seconds = 0.0 if self._function is None else self._function.gate.occupied_for
        record = self._pointer.record
        return (record.entered if record.entries else record.published + 1, seconds) if seconds else None

    @property
    def overdue(self) -> float:
        """The seconds for which a batch has continued after a stop interrupted it; 0 if there is no such batch."""
        return 0.0 if self._function is None else self._function.gate.overdue_for

    def fail(self, error: SparkDriverError) -> None:
        """Prevent the publication of any further batch, because the driver makes no progress.

        `awaitTermination` raises ``error`` once `release` is called.
        """
        self._given_up = error
        if self._function is not None:
            self._function.failure = self._function.failure or error
            self._function.gate.hurry()
            self._function.gate.close(0.0)

    def stop_within(self, timeout: float) -> bool:
        """Ask Spark to stop the query, and wait up to ``timeout`` seconds; return whether the query has ended."""
        thread = threading.Thread(target=self._queries.stop_quietly, name="milepost-stop", daemon=True)
        thread.start()
        thread.join(timeout)
        return not thread.is_alive()

    def release(self) -> None:
        """Make `awaitTermination` raise the error that `fail` got, even if the query has not ended."""
        if self._given_up is not None:
            self._awaiting.release(self._given_up)

    def abandon(self) -> None:
        """Stop the query at once, because the session is lost and no batch can be published any more."""
        if self._function is not None:
            self._function.gate.hurry()
        self._stop()

    def close(self) -> None:
        """Stop the query, unless `fail` ended the job, and close the job's resources. `lead` calls this at the end of
        its block.
        """
        try:
            if self._given_up is None:
                # Stop in another thread: an exception may have cut short a call of this thread to the JVM, whose
                # connection is then unusable.
                within(self._grace + _CLOSE_SECONDS, self._stop)
        except (Py4JError, ConnectionError, TimeoutError) as error:
            _log.warning("Spark does not answer any more, leaving the query as it is: %s", describe(error))
        finally:
            self._rows.close()
            self._state.close()

    def raise_end(self) -> None:
        """Raise the error that ended the query, if there was one and `awaitTermination` has not raised it already."""
        if self._raised or self._given_up is not None:
            return  # `lead` raises the error with which `fail` ended the job
        self._raise_own(None)
        query = self._function.guard.query if self._function is not None else None
        try:
            error = None if query is None else query.exception()
        except (Py4JError, ConnectionError) as away:
            _log.warning("Spark does not answer any more, so it is not known how the query ended: %s", describe(away))
            return
        if error is not None:
            self.raise_if_fenced(error)
            raise error from self._failure()
        if query is None and self._function is not None:  # the query ended before its first batch, perhaps fenced
            self.raise_if_fenced(None)

    def _failure(self) -> BaseException | None:
        return self._function.failure if self._function is not None else None

    def _raise_own(self, cause: StreamingQueryException | None) -> None:
        """If an error of Milepost ended the query, raise it in place of ``cause``, Spark's error: the error of a batch,
        of which Spark passes on only the text, the loss of the session, or `Fenced` if a newer driver leads. Otherwise
        return.
        """
        try:
            self._raise_cause(cause)
        except (Fenced, SessionLost) as lost:
            if self._function is not None and self._function.began:
                check_standstill(self._pointer.record, self._session, self._max_entries, lost)
            raise

    def _raise_cause(self, cause: StreamingQueryException | None) -> None:
        failure = self._failure()
        self._raised = True
        # The error may be a consequence of the work of a newer driver; `Fenced` says more then.
        if isinstance(failure, SparkDriverError) and self._given_up is None:
            self.raise_if_fenced(failure)
        if isinstance(failure, MilepostError):
            raise failure from (failure.__cause__ or cause)
        if self._session.lost and (self._stopping or cause is not None):
            try:
                self._session.raise_if_lost()
            except MilepostError as lost:
                raise lost from cause
        if cause is not None:
            self.raise_if_fenced(cause)

    def raise_if_fenced(self, cause: Exception | None) -> None:
        """Raise `Fenced` if a newer driver leads this job; return if none does, or if the service cannot be asked."""
        try:
            self._pointer.store.raise_if_fenced(cause)
        except Fenced:
            raise
        except MilepostError as error:
            _log.warning("the service could not be asked whether a newer driver leads: %s", error)

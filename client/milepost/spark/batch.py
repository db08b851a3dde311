"""Runs one micro-batch, from the call of its function by Spark to its publication."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from milepost.errors import MilepostError, RestartNeeded, WrongCheckpoint
from milepost.spark.driver.calls import describe
from milepost.spark.driver.running import calling_run
from milepost.spark.driver.stopping import BatchGate, end_as_stopped
from milepost.spark.guard import QueryGuard
from milepost.spark.managed.published import ManagedState
from milepost.spark.pointer import JobPointer
from milepost.spark.publishing import BatchContext, Publisher, evaluate
from milepost.spark.recovery import WORRYING_ENTRIES, JobRecovery
from milepost.spark.tree import CheckpointTree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)


@dataclass
class ExactlyOnce:
    """The function that ``foreachBatch`` calls for each batch.

    ``failure`` keeps the first exception of a batch, because Spark passes on only its text.
    """

    publisher: Publisher
    pointer: JobPointer
    tree: CheckpointTree
    guard: QueryGuard
    recovery: JobRecovery
    """What the driver found when it took the job over; the query's first batch must be the one that follows from it."""
    state: ManagedState
    began: bool = field(default=False, init=False)
    gate: BatchGate = field(default_factory=BatchGate, init=False)
    failure: BaseException | None = field(default=None, init=False)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            query = self.guard.check(frame, *calling_run(frame.sparkSession))
            if not self.gate.enter():
                end_as_stopped(query)
            try:
                if self._interrupted(frame, batch, query):
                    end_as_stopped(query)
            finally:
                self.gate.leave()
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def _interrupted(self, frame: DataFrame, batch: int, query: StreamingQuery) -> bool:
        """Run the batch, and return whether a stop of the query cut it short.

        An exception that such a stop causes is logged and not raised: Spark would take some of these exceptions for a
        failure of the query, and overflows its stack when it searches the long texts of others for the signs of a stop.
        """
        try:
            return self._run(frame, batch, query)
        except Exception as error:
            if query.isActive or (isinstance(error, MilepostError) and not isinstance(error.__cause__, Py4JError)):
                raise
            _log.warning(
                "batch %d was interrupted by the stop of its query, the next driver runs it again; it raised: %s",
                batch,
                describe(error),
            )
            _log.debug("what the interrupted batch raised", exc_info=error)
            return True

    def _run(self, frame: DataFrame, batch: int, query: StreamingQuery) -> bool:
        if batch not in (self.pointer.record.published, self.pointer.record.published + 1):
            raise WrongCheckpoint(
                f"Spark runs batch {batch}, but batch {self.pointer.record.published} was published last: "
                "this query does not go on from the job's checkpoint as this driver found it"
            )
        if batch == self.recovery.set_aside:
            raise RestartNeeded(
                f"Spark has planned batch {batch} anew, but it was begun before the job went back because of damaged "
                "files, and a sink may have seen it: start the job again, and it is run with the input that it had"
            )
        if not self.began:
            self._begin(batch, query)
        if batch == self.pointer.record.published:
            # The driver that published this batch died before Spark logged the batch's commit. The next batch needs the
            # state that evaluating this batch produces, so this driver evaluates the batch again, without publishing it
            # again.
            _log.info("batch %d is published already: evaluating it again for its state, without publishing it", batch)
            evaluate(frame)
            # Reset the count of unfinished beginnings: otherwise each driver of a job without new input would add to
            # the count of this finished batch.
            self.pointer.publish(lambda record: record.replayed(self.pointer.store.epoch))
            return False
        self.state.enter(batch)
        try:
            manifest = self.publisher.publish(frame, self._context(batch))
            state = self.state.staged()
        finally:
            self.state.leave()
        if not query.isActive:
            # The stop may have cut the function's writes short unnoticed by the function. So the batch is not
            # published; the next driver runs it again.
            return True
        self.pointer.publish(lambda record: record.publishing(batch, manifest, self.pointer.store.epoch, state))
        return False

    def _begin(self, batch: int, query: StreamingQuery) -> None:
        """Check that the query continues from the checkpoint that this driver found, and then record in the job record
        that the driver begins ``batch``.

        The check is necessary because the checkpoint may have been emptied since the take-over. Spark would then begin
        at batch 0 and divide the input into batches anew. If batch 0 were also the last published batch, the driver
        would take its new rows for published ones.

        The write of the job record succeeds only while no newer driver leads: otherwise that driver may have logged the
        offsets of this batch. Later batches need no such write, because Spark has logged their offsets under this
        driver's epoch.
        """
        found = self.recovery
        differing = []
        if found.query is not None and str(query.id) != found.query:
            differing.append("metadata")
        if found.offsets is not None and self.tree.read(f"offsets/{found.resumes_at}") != found.offsets:
            differing.append(f"offsets/{found.resumes_at}")
        if differing or batch != found.resumes_at:
            why = f", and {', '.join(differing)} differs" if differing else ""
            raise WrongCheckpoint(
                f"Spark runs batch {batch}, but batch {found.resumes_at} came next when this driver took the job over"
                f"{why}: {self.tree.location} was emptied or changed since"
            )
        entries = found.entries + 1
        self.pointer.change(lambda record: record.entering(batch, entries, self.pointer.store.epoch))
        self.began = True
        if entries >= WORRYING_ENTRIES:
            _log.warning("replays without progress: this is entry no. %d to batch %d", entries, batch)

    def _context(self, batch: int) -> BatchContext:
        record = self.pointer.record
        attempt = record.entries if record.entered == batch else 1
        return BatchContext(batch, self.pointer.store.epoch, attempt, record.job, record.manifest, record.timeline)

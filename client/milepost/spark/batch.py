"""Runs one micro-batch from its entry to its publication."""

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

    ``failure`` keeps the exception that the publishing function raised, because Spark turns exceptions into text.
    """

    publisher: Publisher
    pointer: JobPointer
    tree: CheckpointTree
    guard: QueryGuard
    recovery: JobRecovery
    """The recovery with the batch at which the query must continue; its first batch is checked against this."""
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

        The exceptions of a batch that was cut short only follow from the stop, including Milepost's own about steps
        that Spark left out. Spark would take some of them for a failure, and others have a text that is too long for
        its pattern.
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
            # The driver that published this batch died before Spark noted the commit. The next batch builds on the
            # state that evaluating this one produces, so this driver evaluates the batch again, but does not publish it
            # again.
            _log.info("batch %d is published already: evaluating it again for its state, without publishing it", batch)
            evaluate(frame)
            # Without this, the record would count each driver of a job without new input as one that ended inside this
            # batch.
            self.pointer.change(lambda record: record.replayed(self.pointer.store.epoch))
            return False
        self.state.enter(batch)
        try:
            manifest = self.publisher.publish(frame, self._context(batch))
            state = self.state.staged()
        finally:
            self.state.leave()
        if not query.isActive:
            # The stop may have cut the function's writes short without the function noticing. So this attempt does
            # not count: the next driver runs the batch again.
            return True
        self.pointer.change(lambda record: record.publishing(batch, manifest, self.pointer.store.epoch, state))
        return False

    def _begin(self, batch: int, query: StreamingQuery) -> None:
        """Note in the job record that this driver begins with ``batch``; before that, check that the query continues
        from the checkpoint that the driver found.

        If the checkpoint was emptied meanwhile, Spark begins at batch 0 and divides the input anew. If batch 0 is also
        the last published batch, its new rows would be taken for published. The service refuses the note to a driver
        that stood still since it was granted the epoch, and whose successor has logged this batch. Later batches need
        no note: the driver itself has logged their offsets under its epoch.
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
        return BatchContext(batch, self.pointer.store.epoch, attempt, record.job, record.manifest)

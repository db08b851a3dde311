"""One micro-batch, from its entry to its publication."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from milepost.errors import MilepostError, UnsafeQuery, WrongCheckpoint
from milepost.spark.beside import Beside
from milepost.spark.context import BatchContext
from milepost.spark.guard import QueryGuard
from milepost.spark.pointer import JobPointer
from milepost.spark.record import JobCheckpoint
from milepost.spark.removals import Removals
from milepost.spark.running import calling_run
from milepost.spark.sink import FilesSink
from milepost.spark.snapshotter import Reading, Snapshotter
from milepost.spark.stopping import BatchGate, end_as_stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

Publish = Callable[["DataFrame", BatchContext], Any]
MANIFEST_BYTES = 64 * 1024
WORRYING_ENTRIES = 3
"""From this many entries on, a batch that is begun again and again without being published is reported."""


@dataclass
class ExactlyOnce:
    """The function that ``foreachBatch`` calls. ``failure`` keeps what it raised, which Spark turns into text."""

    publish: Publish
    pointer: JobPointer
    snapshotter: Snapshotter
    guard: QueryGuard
    removals: Removals
    retain: int
    resumed: JobCheckpoint | None = None
    """What was restored for the query; None for a job that begins."""
    gate: BatchGate = field(default_factory=BatchGate, init=False)
    failure: BaseException | None = field(default=None, init=False)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            query = self.guard.check(frame, *calling_run(frame.sparkSession))
            if not self.gate.enter():
                end_as_stopped(frame.sparkSession, query)
            try:
                if self._interrupted(frame, batch, query):
                    end_as_stopped(frame.sparkSession, query)
            finally:
                self.gate.leave()
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def _interrupted(self, frame: DataFrame, batch: int, query: StreamingQuery) -> bool:
        """Run the batch; whether a stop of the query cut it short.

        What it raises then only follows from that, in forms that Spark takes for a failure, or whose text is too long
        for the pattern that it compares it with.
        """
        try:
            return self._run(frame, batch, query)
        except MilepostError:
            raise
        except Exception as error:
            if query.isActive:
                raise
            _log.warning("batch %d was interrupted, the next driver runs it again; it raised: %s", batch, error)
            return True

    def _run(self, frame: DataFrame, batch: int, query: StreamingQuery) -> bool:
        published = self.pointer.record.published
        if batch not in (published, published + 1):
            raise WrongCheckpoint(
                f"Spark runs batch {batch}, but batch {published} was published last: "
                "this query does not go on from the checkpoint that was restored for it"
            )
        reading = self.snapshotter.read(batch, committed=False)
        self._check_resumed(reading)
        if batch == published:
            # Its driver died before Spark noted the commit. The state that the next batch builds on comes from
            # evaluating this one, so it is evaluated, and not published again.
            self._enter(reading)
            _log.info("batch %d is published already: evaluating it for its state", batch)
            _evaluate(frame)
            # Else a job without new input would count its drivers as so many that ended inside this batch.
            self.pointer.move(self.pointer.record.replayed(self.snapshotter.store.epoch))
            return False
        # The checkpoint is in hand, so it may be stored while Spark evaluates. Nobody is shown anything of the batch,
        # and no function of the user's is called with it, before it is registered.
        with Beside(lambda: self._enter(reading), "milepost-entry") as entry:
            manifest = self._publish(frame, batch, entry)
        if not query.isActive:
            # The stop may have cut its writes short, and it may have taken that for done. So it does not count:
            # the next driver runs the batch again.
            return True
        self.pointer.move(self.pointer.record.publishing(batch, manifest, self.snapshotter.store.epoch))
        return False

    def _check_resumed(self, reading: Reading) -> None:
        """The first batch is the one that the restored checkpoint knows, by its query and its offsets.

        In a directory that was emptied meanwhile, Spark begins at batch 0 and divides the input anew: if 0 is the batch
        that was published last, what is new in it would be taken for published.
        """
        checkpoint, self.resumed = self.resumed, None
        if checkpoint is None:
            return
        log = ("metadata", f"offsets/{checkpoint.batch}")
        differing = [path for path in log if reading.inline.get(path) != checkpoint.inline.get(path)]
        if differing or reading.batch != checkpoint.resumes_at:
            raise WrongCheckpoint(
                f"Spark runs batch {reading.batch}, but not from the {checkpoint} that was restored for it"
                f"{', as ' if differing else ''}{', '.join(differing)}{' differs' if differing else ''}: "
                f"{self.snapshotter.directory} was emptied or changed since"
            )

    def _enter(self, reading: Reading) -> None:
        """Register the checkpoint at entry: from here on any driver can run this batch again with the same offsets."""
        before = self.pointer.record
        record = before.entering(self.snapshotter.keep(reading), self.retain)
        self.pointer.move(record)
        self.removals.remove(before.layer_names() - record.layer_names())
        if record.entries >= WORRYING_ENTRIES:
            _log.warning("replays without progress: this is entry no. %d to batch %d", record.entries, reading.batch)

    def _publish(self, frame: DataFrame, batch: int, entry: Beside) -> Any:
        """What the publishing function returns, for the record. The user's is called once ``entry`` stands."""
        if isinstance(self.publish, FilesSink):
            # It writes the frame once, every partition to its end: that is the one whole evaluation itself. And it
            # shows nothing to anybody.
            return self.publish(frame, self._context(batch))
        kept = frame.persist()
        try:
            # One evaluation, whole, before the function sees it: what it then does (take, limit, reading twice or not
            # at all) can neither leave state behind half-written nor evaluate twice.
            _evaluate(kept)
            entry.join()
            return _manifest(self.publish(kept, self._context(batch)))
        finally:
            _unpersist(kept)

    def _context(self, batch: int) -> BatchContext:
        record = self.pointer.record
        attempt = record.entries if record.entered == batch else 1
        return BatchContext(batch, self.snapshotter.store.epoch, attempt, record.job, record.manifest)


def _evaluate(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _unpersist(frame: DataFrame) -> None:
    """Whether this works or not says nothing about the batch."""
    try:
        frame.unpersist()
    except (Py4JError, ConnectionError) as error:
        _log.warning("what was kept of a batch is left to Spark's cleaner: %s", error)


def _manifest(value: Any) -> Any:
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UnsafeQuery(f"what the publishing function returns is kept as JSON in the job record: {error}") from error
    if size > MANIFEST_BYTES:
        raise UnsafeQuery(
            f"what the publishing function returned is {size} bytes of JSON, the job record takes {MANIFEST_BYTES}: "
            "write it beside the output and return where it lies"
        )
    return value

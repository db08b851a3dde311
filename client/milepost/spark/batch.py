"""One micro-batch, from its entry to its publication."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from milepost.errors import UnsafeQuery, WrongCheckpoint
from milepost.spark.context import BatchContext
from milepost.spark.guard import QueryGuard
from milepost.spark.pointer import JobPointer
from milepost.spark.removals import Removals
from milepost.spark.running import calling_run
from milepost.spark.snapshotter import Snapshotter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    failure: BaseException | None = field(default=None, init=False)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        caller = calling_run(frame.sparkSession)
        try:
            self._run(frame, batch, caller)
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def _run(self, frame: DataFrame, batch: int, caller: tuple[str, str]) -> None:
        self.guard.check(frame, *caller)
        published = self.pointer.record.published
        if batch not in (published, published + 1):
            raise WrongCheckpoint(
                f"Spark runs batch {batch}, but batch {published} was published last: "
                "this query does not go on from the checkpoint that was restored for it"
            )
        self._enter(batch)
        if batch == published:
            # Its driver died before Spark noted the commit. The state that the next batch builds on comes from
            # evaluating this one, so it is evaluated, and not published again.
            _log.info("batch %d is published already: evaluating it for its state", batch)
            _evaluate(frame)
            return
        manifest = self._publish(frame, batch)
        record = self.pointer.record.publishing(batch, manifest, self.snapshotter.store.epoch)
        self.pointer.move(record)

    def _enter(self, batch: int) -> None:
        """Register the checkpoint at entry: from here on any driver can run this batch again with the same offsets."""
        before = self.pointer.record
        record = before.entering(self.snapshotter.take(batch, committed=False), self.retain)
        self.pointer.move(record)
        self.removals.remove(before.layer_names() - record.layer_names())
        if record.entries >= WORRYING_ENTRIES:
            _log.warning("replays without progress: this is entry no. %d to batch %d", record.entries, batch)

    def _publish(self, frame: DataFrame, batch: int) -> Any:
        record = self.pointer.record
        epoch = self.snapshotter.store.epoch
        context = BatchContext(batch, epoch, record.entries, record.job, record.manifest)
        kept = frame.persist()
        try:
            # One evaluation, whole, before the function sees it: what it then does (take, limit, reading twice or not
            # at all) can neither leave state behind half-written nor evaluate twice.
            _evaluate(kept)
            return _manifest(self.publish(kept, context))
        finally:
            kept.unpersist()


def _evaluate(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


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

"""The final checkpoint of a run, from which the next driver continues *after* the batch that was published last.

Every other checkpoint is taken when a batch is entered, before the batch is evaluated. With only these, the next driver
evaluates the last published batch once more, for its state, and does not publish it again. The final checkpoint is
taken after Spark has committed that batch, and saves this work. It is good for nothing else, so it is left out unless
it is certainly complete.
"""

from __future__ import annotations

import logging

from milepost.errors import MilepostError
from milepost.spark.checkpoints.snapshot import lagging_partitions, retry_while_files_vanish, scan
from milepost.spark.checkpoints.snapshotter import Snapshotter
from milepost.spark.pointer import JobPointer

_log = logging.getLogger(__name__)


def register_final_checkpoint(pointer: JobPointer, snapshotter: Snapshotter, retain: int) -> bool:
    """Store the final checkpoint and name it in the job record, if Spark has committed the last published batch.

    Call this once the query has ended without an error. The record keeps the newest ``retain`` checkpoints. Returns
    whether the final checkpoint is surely registered. An error of the service or of the disk is logged and not raised,
    since no data is lost by it.
    """
    published = pointer.record.published
    reason = _reason_against(pointer, snapshotter, published)
    if reason:
        _log.info("no final checkpoint is registered: %s", reason)
        return False
    try:
        pointer.move(pointer.record.ending(snapshotter.take(published, committed=True), retain))
    except (MilepostError, OSError) as error:
        _log.warning(
            "the final checkpoint may not be registered; the next driver then evaluates batch %d again: %s",
            published,
            error,
        )
        return False
    return True


def _reason_against(pointer: JobPointer, snapshotter: Snapshotter, published: int) -> str:
    """Return why no final checkpoint can be registered; empty if one can."""
    checkpoints = pointer.record.checkpoints
    if published < 0:
        return "nothing was published"
    if checkpoints and checkpoints[0].resumes_at > published:
        return f"the {checkpoints[0]} is registered already"
    files = retry_while_files_vanish(lambda: scan(snapshotter.directory))
    if f"commits/{published}" not in files:
        return f"Spark did not commit batch {published}"
    lagging = lagging_partitions(files, published + 1)  # a batch's state has the number of the next batch
    if lagging:
        return f"{', '.join(lagging[:3])} did not commit batch {published}"
    return ""

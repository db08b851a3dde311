"""The final checkpoint of a run: what Spark committed after the last batch was entered.

Without it, the next driver evaluates the last batch once more and does not publish it. The final checkpoint only saves
that work, so it is registered if it is certainly complete, and left out otherwise.
"""

from __future__ import annotations

import logging

from milepost.errors import MilepostError
from milepost.spark.checkpoints.snapshot import lagging_partitions, scan, settled
from milepost.spark.checkpoints.snapshotter import Snapshotter
from milepost.spark.pointer import JobPointer

_log = logging.getLogger(__name__)


def register_final_checkpoint(pointer: JobPointer, snapshotter: Snapshotter, retain: int) -> bool:
    """Register the last published batch as committed by Spark, if it is. The query must have ended without an error.

    Returns whether the final checkpoint was registered. A refusal of the service is logged, not raised: nothing is lost
    by it.
    """
    published = pointer.record.published
    reason = _incomplete(pointer, snapshotter, published)
    if reason:
        _log.info("no final checkpoint is registered: %s", reason)
        return False
    try:
        pointer.move(pointer.record.ending(snapshotter.take(published, committed=True), retain))
    except (MilepostError, OSError) as error:
        _log.warning(
            "the final checkpoint was not registered, the next driver evaluates batch %d again: %s", published, error
        )
        return False
    return True


def _incomplete(pointer: JobPointer, snapshotter: Snapshotter, published: int) -> str:
    checkpoints = pointer.record.checkpoints
    if published < 0:
        return "nothing was published"
    if checkpoints and checkpoints[0].resumes_at > published:
        return f"the {checkpoints[0]} is registered already"
    found = settled(lambda: scan(snapshotter.directory))
    if f"commits/{published}" not in found:
        return f"Spark did not commit batch {published}"
    lagging = lagging_partitions(found, published + 1)
    if lagging:
        return f"{', '.join(lagging[:3])} did not commit batch {published}"
    return ""

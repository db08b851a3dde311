"""Rescales a job: Spark divides the state of the query's operators anew, and the job record says whether that counts.

Spark's offline repartition commits a batch N + 1 without input, with the state of batch N in another number of
partitions. It is several writes, so a driver first notes N + 1 in the job record (``rescales_at``). From then on the
commit of N + 1 decides, however the driver ends: without it, `end_rescale` rolls the files back to the snapshot of
batch N; with it, batch N + 1 counts as published, without output.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from milepost.errors import CheckpointDamaged, JvmLost, NoSafeCheckpoint, NotExist, UnsafeQuery, WrongCheckpoint
from milepost.files import JobFiles
from milepost.job_types import JobAct
from milepost.rescaling import JobRescale, partitions_of, planned
from milepost.spark.driver.calls import describe
from milepost.spark.inputs import Checkpoint
from milepost.spark.pointer import JobPointer
from milepost.spark.recovery import newest
from milepost.types import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_ROOT = "checkpoint"


def rescale(
    spark: SparkSession, job: str, pointer: JobPointer, checkpoint: Checkpoint, location: str, partitions: int
) -> JobRescale:
    """Divide the state of ``job`` anew, whose ``checkpoint`` is at ``location``, and return what was done.

    Raises the errors of `milepost.spark.Job.rescale`.
    """
    files = pointer.store.plain.files
    plan = planned(job, files, partitions)
    manager = getattr(spark, "_streamingCheckpointManager", None)
    if manager is None:
        raise UnsafeQuery(f"Spark {spark.version} cannot divide the state of a query anew: Spark 4.2 and later can")
    before = _snapshot_of(files, plan.batch - 1)
    pointer.publish(lambda record: record.rescaling(plan.batch, pointer.store.epoch))
    failure: Exception | None = None
    try:
        manager.repartition(location, partitions)
    except Py4JNetworkError as error:
        raise JvmLost(f"Spark's JVM has ended: {error}") from error
    except (PySparkException, Py4JError) as error:
        failure = error
    if newest(checkpoint, "commits") >= plan.batch:
        _check_whole(files, pointer, before)
        end_rescale(pointer, checkpoint)
        return replace(plan, undo=before.name)
    end_rescale(pointer, checkpoint)
    why = "it has committed nothing" if failure is None else describe(failure)
    raise UnsafeQuery(
        f"Spark cannot divide the state of {job} among {partitions} partitions: {why}; the job is as it was"
    ) from failure


def end_rescale(pointer: JobPointer, checkpoint: Checkpoint) -> None:
    """End the rescale that the job record notes, as Spark's log ``commits`` decides.

    A driver calls this when it takes a job over, and at the end of its own rescale. Raises `NoSafeCheckpoint` if the
    snapshot to go back to is not kept, and the errors of a write; then the record notes the rescale still.
    """
    batch = pointer.record.rescales_at
    if batch is None:
        return
    committed = newest(checkpoint, "commits")
    if committed >= batch:
        pointer.publish(lambda record: record.rescaled(committed, pointer.store.epoch), _act(pointer, batch))
        return
    _take_back(pointer, _snapshot_of(pointer.store.plain.files, batch - 1))
    _log.warning("the rescale as batch %d was not committed: the job is back at batch %d", batch, batch - 1)


def _act(pointer: JobPointer, batch: int) -> JobAct:
    """Return what a rescale, committed as ``batch``, has done to the job, as Spark's log of offsets says."""
    files = pointer.store.plain.files
    try:
        before, now = (partitions_of("the job", files, number) for number in (batch - 1, batch))
    except (WrongCheckpoint, NotExist) as error:
        _log.info("the history will not say how many partitions the rescale as batch %d made: %s", batch, error)
        return JobAct("rescaled", batch=batch)
    return JobAct("rescaled", batch=batch, partitions=now, previous_partitions=before)


def _check_whole(files: JobFiles, pointer: JobPointer, before: Snapshot) -> None:
    """Take the rescale back, and raise `CheckpointDamaged`, if bytes of what Spark has written are missing."""
    found = files.verify()
    if found.intact:
        return
    _take_back(pointer, before)
    raise CheckpointDamaged(
        f"bytes of what Spark wrote for the rescale are missing; the job is back at batch {before.batch}",
        [file.path for file in found.damaged],
    )


def _take_back(pointer: JobPointer, before: Snapshot) -> None:
    """Roll the files back to the snapshot from before a rescale, and take the note of it out of the record."""
    pointer.store.plain.files.roll_back(before.revision)
    pointer.change(lambda record: record.rescaled(before.batch, pointer.store.epoch))


def _snapshot_of(files: JobFiles, batch: int) -> Snapshot:
    """Return the newest snapshot of ``batch``. Raises `NoSafeCheckpoint` if none is kept."""
    found = [each for each in files.snapshots().snapshots if each.directory == _ROOT and each.batch == batch]
    if not found:
        raise NoSafeCheckpoint(f"the job keeps no snapshot of batch {batch}, to which a rescale would go back")
    return max(found, key=lambda each: each.revision)

"""Plans a rescale: the state of a job's operators, divided anew among another number of partitions.

Spark does the dividing (`milepost.spark.Job.rescale`); this module reads what it would do, without Spark.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from milepost.errors import UnsafeQuery, WrongCheckpoint
from milepost.files import JobFiles
from milepost.restoring import names_in, newest_batch

_LOGS = "checkpoint"
_PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting with the number of partitions of the state. Its value in Spark's offset log wins over the session's."""
_OPERATOR = re.compile(r"\d+\Z")


@dataclass(frozen=True)
class JobRescale:
    """A rescale of a job from ``partitions_before`` to ``partitions`` partitions, planned or made.

    ``batch`` is the batch, without input, as which Spark commits the state that is divided anew. ``source``, ``state``,
    ``output`` and ``sink`` say in words what becomes of them. ``undo`` is the snapshot to which a restore undoes the
    rescale; None while the rescale is only planned.
    """

    job: str
    partitions_before: int
    partitions: int
    batch: int
    source: str
    state: str
    output: str
    sink: str
    undo: str | None = None


def planned(job: str, files: JobFiles, partitions: int) -> JobRescale:
    """Return what a rescale of the ``job`` with these ``files`` to ``partitions`` partitions would do; change nothing.

    Raises `UnsafeQuery` if it cannot be done: the job has no state of Spark's operators, or has that number of
    partitions already, or has a batch that is begun and not committed. Raises `WrongCheckpoint` if Spark's log cannot
    be read.
    """
    if partitions < 1:
        raise ValueError("partitions must be 1 or more")
    logged, committed = newest_batch(files, f"{_LOGS}/offsets"), newest_batch(files, f"{_LOGS}/commits")
    if committed < 0:
        raise UnsafeQuery(
            f"{job} has no committed batch under {_LOGS}/, so there is no state to rescale. The queries of a job under "
            "milepost run are elsewhere, and cannot be rescaled"
        )
    if logged != committed:
        raise UnsafeQuery(
            f"batch {logged} of {job} is begun and not committed: start the job, let it finish that batch, and "
            "stop it in order; then rescale it"
        )
    operators = [name for name in names_in(files, f"{_LOGS}/state") if _OPERATOR.match(name)]
    if not operators:
        raise UnsafeQuery(f"{job} has no state of Spark's operators, so there is nothing to rescale")
    before = partitions_of(job, files, logged)
    if before == partitions:
        raise UnsafeQuery(f"the state of {job} has {partitions} partitions already")
    return JobRescale(
        job=job,
        partitions_before=before,
        partitions=partitions,
        batch=committed + 1,
        source=f"is not read; batch {committed + 2} goes on from the offsets after batch {committed}",
        state=f"that of {len(operators)} operators is copied from {before} to {partitions} partitions; managed state "
        "stays as it is",
        output=f"stays as it is; there is no output of batch {committed + 1}",
        sink=f"gets nothing, and never sees a batch {committed + 1}",
    )


def partitions_of(job: str, files: JobFiles, batch: int) -> int:
    """Return in how many partitions the state of Spark's operators is after ``batch``. Raises `WrongCheckpoint` if
    Spark's log does not say, and `NotExist` if it has no such batch.
    """
    path = f"{_LOGS}/offsets/{batch}"
    try:
        return int(json.loads(files.read(path).decode().splitlines()[1])["conf"][_PARTITIONS])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise WrongCheckpoint(f"{path} of {job} does not say how many partitions its state has") from error

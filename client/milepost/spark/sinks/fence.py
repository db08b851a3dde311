"""The fence of a table: one row, which says which batches of which job the table has.

A sink changes the row in the transaction in which it writes the rows of a batch, so the two never disagree. The row
alone decides whether a batch may be written: a batch that is there is not written again, a driver of an older epoch is
refused (the epoch is a fencing token), and after a restore of the job the batches that count no more are known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from milepost import timeline
from milepost.errors import SinkRefused
from milepost.spark.publishing import BatchContext


@dataclass(frozen=True)
class Run:
    """Batches of a table between two restores of the job: those from ``first`` on, up to the next run. ``epoch`` is
    that of their first driver. No restore lies between its batches, so a timeline has either all epochs of a run or
    none.
    """

    epoch: int
    first: int


@dataclass(frozen=True)
class FenceRow:
    """What a table has: the batches up to ``batch`` (-1: none) of the job with the identity ``job``. The last one has
    ``rows`` rows, and a driver of the epoch ``epoch`` wrote it.
    """

    job: str
    epoch: int
    batch: int = -1
    rows: int = 0
    runs: tuple[Run, ...] = ()

    def written(self, context: BatchContext, rows: int) -> FenceRow:
        """Return the row after the batch of ``context`` was written, and all later ones were taken back."""
        runs = tuple(run for run in self.runs if run.first < context.batchId)
        if not runs or runs[-1].epoch < timeline.restored_under(context.timeline):
            runs = (*runs, Run(context.epoch, context.batchId))
        return FenceRow(self.job, context.epoch, context.batchId, rows, runs)

    def counting(self, of: timeline.Timeline) -> int:
        """Return the last batch up to which all batches of the table count in the timeline ``of``; -1: none."""
        found = -1
        for number, run in enumerate(self.runs):
            following = self.runs[number + 1].first - 1 if number + 1 < len(self.runs) else self.batch
            last = min(following, self.batch)  # an operator may have lowered the number of the batch
            counting = (batch for batch in range(last, run.first - 1, -1) if timeline.contains(of, batch, run.epoch))
            found = next(counting, run.first - 1)
            if found < last or last == self.batch:
                break
        return found

    def encode_runs(self) -> str:
        """Return the runs as JSON."""
        return json.dumps([[run.epoch, run.first] for run in self.runs], separators=(",", ":"))


def decode_runs(text: Any) -> tuple[Run, ...]:
    """Read the JSON of `FenceRow.encode_runs`. Raises `SinkRefused` if it is something else."""
    try:
        runs = tuple(
            Run(timeline.whole_number(epoch), timeline.whole_number(first)) for epoch, first in json.loads(text)
        )
    except (ValueError, TypeError) as error:
        raise SinkRefused(f"the fence of the table cannot be read: its runs are {text!r}") from error
    if [run.first for run in runs] != sorted({run.first for run in runs}):
        raise SinkRefused(f"the fence of the table cannot be read: its runs are not in order: {text!r}")
    return runs


@dataclass(frozen=True)
class Step:
    """What to do with a batch. ``there``: nothing, the table has it. ``take_back``: delete the rows of all later
    batches than this one before writing; None: none of them has to go.
    """

    there: bool = False
    take_back: int | None = None


def decide(fence: FenceRow, context: BatchContext, expected: int) -> Step:
    """Return what to do with the batch of ``context``. ``expected`` is the last batch that the job has published into
    this table, by its job record; -1: none.

    Raises `SinkRefused` if the table must not get the batch.
    """
    if fence.job != context.job:
        raise SinkRefused(
            f"the table belongs to the job with the identity {fence.job}, and this one is {context.job}: give each job "
            "a table of its own"
        )
    if fence.epoch > context.epoch:
        raise SinkRefused(
            f"a newer driver has written batch {fence.batch} under epoch {fence.epoch}, this driver's epoch is "
            f"{context.epoch}"
        )
    kept = fence.counting(context.timeline)
    if kept < expected:
        raise SinkRefused(
            f"the table has this job's batches up to {kept}, and the job has published up to {expected} there: the "
            "table is an older copy, or an earlier restore of the job has taken the later batches back; restore the "
            f"job to batch {kept}"
        )
    if kept < fence.batch:
        return Step(take_back=kept)
    if context.batchId < fence.batch:
        raise SinkRefused(f"the table has batch {fence.batch} already, and this is batch {context.batchId}")
    return Step(there=context.batchId == fence.batch)

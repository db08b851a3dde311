"""What a fence's row says of a batch, without a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import SinkRefused
from milepost.job_record import JobRecord
from milepost.spark import BatchContext
from milepost.spark.sinks.fence import FenceRow, Run, Step, decide, decode_runs

JOB = "j"


@dataclass
class Table:
    """A table that keeps the batch's number, with the fence, and the publications that it has."""

    fence: FenceRow = field(default_factory=lambda: FenceRow(JOB, 1))
    has: list[tuple[int, int]] = field(default_factory=list)

    def write(self, record: JobRecord, epoch: int, expected: int) -> None:
        """Write the next batch of the job."""
        batch = record.published + 1
        context = BatchContext(batch, epoch, 1, record.job, None, record.timeline)
        step = decide(self.fence, context, expected)
        if not step.there:
            if step.take_back is not None:
                self.has = [each for each in self.has if each[0] <= step.take_back]
            self.has.append((batch, epoch))
            self.fence = FenceRow(
                **{
                    **vars(self.fence.written(context, 1)),
                    "runs": decode_runs(self.fence.written(context, 1).encode_runs()),
                }
            )


@given(st.lists(st.one_of(st.sampled_from(["publish", "die", "epoch"]), st.integers(0, 50)), max_size=40))
def test_a_table_always_has_what_the_job_has_published_or_refuses(acts: list[Any]) -> None:
    """Drivers publish, die between the table and the record, and follow each other; restores go to any earlier time."""
    table, record, epoch = Table(), JobRecord(JOB, 1), 1
    counts: list[tuple[int, int]] = []
    kept = [(record, counts)]
    for act in acts:
        if act == "epoch":
            epoch += 1
        elif isinstance(act, int):
            epoch += 1
            then, counts = kept[act % len(kept)]
            record = record.restoring(then, epoch)
        else:
            missing = [each for each in counts if each not in table.has]
            before = list(table.has)
            try:
                table.write(record, epoch, record.published)
            except SinkRefused:
                assert missing  # an earlier restore has deleted them
                assert table.has == before
                continue
            batch, wrote = table.has[-1]
            assert batch == record.published + 1
            assert table.has[:-1] == counts
            if act == "die":
                epoch += 1
                continue
            record = record.publishing(batch, {"batch": batch}, epoch)
            counts = [*counts, (batch, wrote)]
            kept.append((record, counts))


def context(batch: int, epoch: int) -> BatchContext:
    return BatchContext(batch, epoch, 1, JOB, None)


WRITTEN = FenceRow(JOB, 3, 5, 10, (Run(1, 0),))


@pytest.mark.parametrize(
    ("batch", "epoch", "expected", "step"),
    [
        (6, 3, 5, Step()),
        (8, 9, 5, Step()),  # batches 6 and 7 of a rescale have no output
        (5, 4, 4, Step(there=True)),  # a driver died between table and record
    ],
)
def test_what_may_be_written(batch: int, epoch: int, expected: int, step: Step) -> None:
    assert decide(WRITTEN, context(batch, epoch), expected) == step


@pytest.mark.parametrize(
    ("fence", "asked", "expected", "complaint"),
    [
        (FenceRow("k", 1), context(4, 9), -1, "belongs to the job with the identity k"),
        (WRITTEN, context(6, 2), 5, "a newer driver has written batch 5 under epoch 3"),
        (WRITTEN, context(8, 4), 7, "up to 5, and the job has published up to 7.*to batch 5"),
        (WRITTEN, context(4, 3), 3, "has batch 5 already"),
        (
            FenceRow(JOB, 9, 5, 10, (Run(1, 0), Run(5, 8))),
            context(7, 9),
            6,
            "up to 5, and the job has published up to 6",
        ),
        (FenceRow(JOB, 1), context(4, 3), 3, "up to -1, and the job has published up to 3"),
    ],
)
def test_what_is_refused(fence: FenceRow, asked: BatchContext, expected: int, complaint: str) -> None:
    with pytest.raises(SinkRefused, match=complaint):
        decide(fence, asked, expected)


@pytest.mark.parametrize("text", ["", "7", "[[1]]", "[[1, true]]", "[[1, 3], [2, 1]]", "[[1, 3], [2, 3]]", None])
def test_runs_that_cannot_be_read_are_refused(text: Any) -> None:
    with pytest.raises(SinkRefused, match="cannot be read"):
        decode_runs(text)

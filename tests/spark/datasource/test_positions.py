"""What a stream reads next, compared with plain lists over drawn histories of publications, restores and expiry."""

from __future__ import annotations

import random
from typing import Any

import pytest

from milepost.errors import (
    BatchesGone,
    BatchesTakenBack,
    JobUnknown,
    NoSafeCheckpoint,
    RecordUnreadable,
)
from milepost.job_record import Abandoned, JobRecord, decode
from milepost.spark.datasource.positions import Position, Stream, from_json
from milepost.spark.output.listing import history_of
from milepost.spark.output.manifest import PublishedBatch
from milepost.timeline import restored_under


class Job:
    """A job record and the pages that it names, changed as drivers and restores change them; ``line`` has all batches
    that count, also expired ones, as a plain list.
    """

    def __init__(self) -> None:
        self.record = JobRecord("job", 1)
        self.epoch = 1
        self.line: list[PublishedBatch] = []
        self.lists: dict[str, list[PublishedBatch]] = {}
        self.kept: list[tuple[JobRecord, list[PublishedBatch]]] = []
        self.keep()

    def keep(self) -> None:
        """What a snapshot has."""
        self.kept.append((self.record, self.line))

    def publish(self) -> None:
        batch = self.record.published + 1
        name = f"batch-{batch}-e{self.epoch}"
        self.line = [*self.line, PublishedBatch(batch, f"batch={batch}/e{self.epoch}-ab", (("part-0", 1),))]
        self.lists[name] = self.line
        page = {"file": f"_milepost/{name}-ab.json", "sha256": "", "first": 0, "last": batch}
        manifest = {"kind": "files", "output": "file:/out", "page": page}
        self.record = self.record.publishing(batch, manifest, self.epoch)
        self.keep()

    def rescale(self) -> None:
        """A batch that is published without output."""
        batch = self.record.published + 1
        self.record = self.record.rescaling(batch, self.epoch).rescaled(batch, self.epoch)
        self.keep()

    def restore(self, then: tuple[JobRecord, list[PublishedBatch]]) -> bool:
        self.epoch += 1
        try:
            self.record = self.record.restoring(then[0], self.epoch)
        except NoSafeCheckpoint:
            return False
        self.line = then[1]
        return True

    def expire(self, before: int) -> None:
        self.record = self.record.expiring(before, self.epoch).forgetting()

    def listed(self, history: Abandoned, since: int, expired: int | None = None) -> list[PublishedBatch]:
        """What the pages list, whose files are gone below the expired batches."""
        if history.manifest is None:
            return []
        page = history.manifest["page"]
        since = min(max(since, self.record.expired if expired is None else expired), page["last"])
        known = self.lists[page["file"].removeprefix("_milepost/").removesuffix("-ab.json")]
        return [each for each in known if each.batch >= since and each.counts(history.published, history.timeline)]

    def stream(self, accepted: int | None = None, *, may_lose: bool = False) -> Stream:
        again = decode(self.record.encode())  # what is not stored does not count
        return Stream("flights", again, self.listed, accepted=accepted, may_lose=may_lose)


def drawn(seed: int, steps: int = 40) -> None:
    """A stream follows a job whose owner accepts each restore, and its reader takes back what counts no more."""
    source, job = random.Random(seed), Job()
    at, read = job.stream().earliest(), list[PublishedBatch]()
    for _ in range(steps):
        act = source.random()
        if act < 0.5:
            job.publish()
        elif act < 0.6:
            job.epoch += 1
        elif act < 0.75 and job.restore(source.choice(job.kept)):
            job.keep()
        elif act < 0.8 and job.line and read:
            job.expire(source.randint(0, min(job.line[-1].batch, read[-1].batch)))
        elif act < 0.85 and job.line:
            job.rescale()
        kept = [each for each in job.line if each.batch >= job.record.expired]
        assert job.listed(history_of(job.record), job.record.expired)[-len(kept) :] == kept
        if source.random() < 0.5:
            continue
        prefix = job.line[: len(read)] == read
        if prefix:
            end = job.stream().latest(at, source.choice((None, 1, 2)))
        else:
            with pytest.raises((BatchesTakenBack, NoSafeCheckpoint, BatchesGone)):
                job.stream().latest(at)
            try:
                end = job.stream(restored_under(job.record.timeline)).latest(at)
            except BatchesGone:  # batches that replace what it has read are expired: it says so, and reads nothing
                at, read = job.stream().earliest(), [each for each in job.line if each.batch < job.record.expired]
                continue
        accepted = None if prefix else restored_under(job.record.timeline)
        found = job.stream(accepted).between(at, end)
        assert job.stream(accepted).between(at, end) == found
        read = [*(each for each in read if each in job.line), *found]
        assert read == [each for each in job.line if each.batch <= end.batch]
        at = from_json(end.to_json())


def test_a_stream_has_what_counts_whatever_its_job_went_through() -> None:
    for seed in range(400):
        drawn(seed)


def three() -> tuple[Job, Position]:
    job = Job()
    for _ in range(3):
        job.publish()
    return job, job.stream().newest()


def test_a_planned_batch_of_spark_has_the_same_rows_after_a_restore() -> None:
    job, end = three()
    start = Position("job", 0, 1)
    planned = job.stream().between(start, end)
    job.restore(job.kept[2])  # to batch 1
    job.publish()
    with pytest.raises(BatchesTakenBack) as error:
        job.stream().between(start, end)
    assert error.value.epoch == 2
    assert job.stream(2).between(start, end) == planned
    after = job.stream(2).latest(end)
    assert [each.directory for each in job.stream(2).between(end, after)] == ["batch=2/e2-ab"]


def test_a_restore_that_is_not_the_accepted_one_is_told_again() -> None:
    job, end = three()
    job.restore(job.kept[2])
    job.restore(job.kept[1])
    with pytest.raises(BatchesTakenBack, match="1 to 2"):
        job.stream(2).latest(end)
    assert job.stream(3).latest(end) == Position("job", 0, 1)


def test_a_restore_behind_the_stream_is_none_of_its_concern() -> None:
    job, _ = three()
    job.restore(job.kept[2])
    assert job.stream().latest(Position("job", 1, 1)) == Position("job", 1, 1)


def test_a_job_that_is_another_or_an_older_copy_is_refused() -> None:
    job, end = three()
    with pytest.raises(JobUnknown, match="begin a query with a checkpoint of its own"):
        job.stream().latest(Position("before", 2, 1))
    job.record, _ = job.kept[2]
    with pytest.raises(NoSafeCheckpoint, match="an older copy"):
        job.stream(7).latest(end)


def test_what_expired_unread_is_told_or_passed_over_knowingly() -> None:
    job, _ = three()
    start = job.stream().earliest()
    job.expire(2)
    with pytest.raises(BatchesGone, match="failOnDataLoss") as error:
        job.stream().latest(start)
    assert error.value.batches == (0, 1)
    lossy = job.stream(may_lose=True)
    assert [each.batch for each in lossy.between(start, lossy.latest(start))] == [2]
    assert job.stream().latest(job.stream().earliest()) == Position("job", 2, 1)


@pytest.mark.parametrize(
    "offset", [{}, {"id": "4"}, {"job": "job", "batch": "1", "epoch": 1}, {"batch": 1, "epoch": 1}]
)
def test_an_offset_of_another_source_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(RecordUnreadable, match="another source"):
        from_json(offset)

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
from milepost.spark.output.manifest import PublishedBatch
from milepost.timeline import restored_under


class Job:
    """A job record and the pages that it names, changed as drivers and restores change them."""

    def __init__(self) -> None:
        self.record = JobRecord("job", 1)
        self.epoch = 1
        self.lists: dict[str, list[PublishedBatch]] = {}
        self.kept = [self.record]  # what snapshots have
        self.lines: dict[str, list[PublishedBatch]] = {}

    @property
    def line(self) -> list[PublishedBatch]:
        """All batches that count, also expired ones, as a plain list."""
        return [] if self.record.manifest is None else self._of(self.record.manifest, self.record.published)

    def publish(self) -> None:
        batch = self.record.published + 1
        name = f"batch-{batch}-e{self.epoch}"
        self.lists[name] = [*self.line, PublishedBatch(batch, f"batch={batch}/e{self.epoch}-ab", (("part-0", 1),))]
        page = {"file": f"_milepost/{name}-ab.json", "sha256": "", "first": 0, "last": batch}
        manifest = {"kind": "files", "output": "file:/out", "page": page}
        self.record = self.record.publishing(batch, manifest, self.epoch)
        self.kept.append(self.record)

    def restore(self, then: JobRecord) -> bool:
        self.epoch += 1
        try:
            self.record = self.record.restoring(then, self.epoch)
        except NoSafeCheckpoint:
            return False
        return True

    def expire(self, before: int) -> None:
        self.record = self.record.expiring(before, self.epoch).forgetting()

    def listed(self, history: Abandoned, since: int) -> list[PublishedBatch]:
        if history.manifest is None:
            return []
        kept = self._of(history.manifest, history.published)
        return [each for each in kept if each.batch >= max(since, self.record.expired)]

    def stream(self, accepted: int | None = None, *, may_lose: bool = False) -> Stream:
        again = decode(self.record.encode())  # what is not stored does not count
        return Stream("flights", again, self.listed, accepted=accepted, may_lose=may_lose)

    def _of(self, manifest: Any, published: int) -> list[PublishedBatch]:
        name = manifest["page"]["file"].removeprefix("_milepost/").removesuffix("-ab.json")
        return [each for each in self.lists[name] if each.batch <= published]


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
            job.kept.append(job.record)
        elif act < 0.8 and job.record.published > 0 and read:
            job.expire(source.randint(0, min(job.record.published, read[-1].batch)))
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
                at, read = job.stream().earliest(), job.line[: job.record.expired]
                continue
        accepted = None if prefix else restored_under(job.record.timeline)
        found = job.stream(accepted).between(at, end)
        assert job.stream(accepted).between(at, end) == found
        read = [each for each in read if each in job.line] if not prefix else read
        assert [each.batch for each in found] == list(range(len(read), end.batch + 1))
        read = [*read, *found]
        assert read == job.line[: end.batch + 1]
        at = from_json(end.to_json())


def test_a_stream_has_what_counts_whatever_its_job_went_through() -> None:
    for seed in range(400):
        drawn(seed)


def three() -> tuple[Job, Position]:
    job = Job()
    for _ in range(3):
        job.publish()
    return job, job.stream().latest()


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
    job.record = job.kept[2]
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

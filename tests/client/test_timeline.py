"""A restored record leads to exactly the output that was published when the record was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import timeline
from milepost.errors import NoSafeCheckpoint, RecordUnreadable
from milepost.job_record import KIND, MOST_ABANDONED, Abandoned, JobRecord, decode
from milepost.timeline import UNRESTORED, Stretch

Publication = tuple[int, int]
"""A batch, and the epoch under which it was published."""


def manifest(page: int, *publications: Publication) -> dict[str, Any]:
    last = publications[-1][0] if publications else -1
    return {"kind": KIND, "output": "o", "page": {"file": f"page-{page}", "sha256": "", "first": 0, "last": last}}


@dataclass
class Driven:
    """A job whose drivers publish and restore, and beside it what should count, listed one by one. With ``own`` it
    publishes by a function of its own, whose output the record does not know.
    """

    own: bool = False
    record: JobRecord = field(default_factory=lambda: JobRecord(job="j", epoch=1))
    epoch: int = 1
    pages: list[list[Publication]] = field(default_factory=list)
    kept: list[tuple[JobRecord, list[Publication]]] = field(default_factory=list)
    counts: list[Publication] = field(default_factory=list)

    def publish(self) -> None:
        batch = self.record.published + 1
        listed = [*self.listed(self.record), (batch, self.epoch)]
        self.pages.append(listed)
        page = {"batch": batch} if self.own else manifest(len(self.pages) - 1, *listed)
        self.record = self.record.publishing(batch, page, self.epoch)
        self.counts = [*self.counts, (batch, self.epoch)]
        self.keep()

    def keep(self) -> None:
        self.record = decode(self.record.encode())
        self.kept.append((self.record, self.counts))

    def restore(self, number: int) -> None:
        then, counts = self.kept[number % len(self.kept)]
        self.epoch += 1
        self.keep()  # as `milepost.restoring.restore` does
        self.record = decode(self.record.restoring(then, self.epoch).encode())
        self.counts = counts

    def listed(self, record: JobRecord) -> list[Publication]:
        """What a reader of this record finds."""
        if record.manifest is None:
            return []
        if self.own:
            return self.counts
        page = self.pages[int(record.manifest["page"]["file"].partition("-")[2])]
        return [publication for publication in page if publication[0] <= record.published]


@given(st.booleans(), st.lists(st.one_of(st.just("publish"), st.just("epoch"), st.integers(0, 50)), max_size=40))
def test_whatever_is_restored_lists_what_was_published_then(own: bool, acts: list[Any]) -> None:
    job = Driven(own)
    job.keep()
    restores = 0
    for act in acts:
        if act == "publish":
            job.publish()
        elif act == "epoch":
            job.epoch += 1
        elif restores < MOST_ABANDONED:
            job.restore(act)
            restores += 1
        assert job.listed(job.record) == job.counts
        assert all(
            timeline.contains(job.record.timeline, *each) == (each in job.counts) for page in job.pages for each in page
        )


@given(st.integers(0, 20), st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=6))
def test_a_timeline_is_read_as_it_was_written(batch: int, restores: list[tuple[int, int]]) -> None:
    of, epoch = UNRESTORED, 1
    for to, later in restores:
        epoch += later
        of = timeline.restored(of, to, epoch)
    assert timeline.from_json(timeline.to_json(of)) == of
    assert timeline.restored_under(of) == (epoch if restores else 0)
    assert timeline.contains(of, batch, epoch)


@pytest.mark.parametrize("raw", [[], [[0, None]], [["0", None, None]], [[True, None, None]], 7, None])
def test_what_is_no_timeline_is_refused(raw: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        timeline.from_json(raw)


def test_a_record_of_an_older_release_names_its_epoch_in_its_page() -> None:
    page = {"file": "_milepost/batch-3-e7-ab.json", "sha256": "", "first": 0, "last": 3}
    then = JobRecord("j", 7, published=3, manifest={"kind": KIND, "output": "o", "page": page})
    now = JobRecord("j", 9, published=5, manifest=manifest(1, (5, 9)), published_under=9)
    back = now.restoring(then, 10)
    assert (back.published, back.published_under, back.manifest) == (3, 7, now.manifest)
    assert back.timeline == (Stretch(0, 10, 3), Stretch(10))
    assert back.abandoned == (Abandoned(now.manifest, 5, (Stretch(0, 10),)),)


def test_what_cannot_be_restored() -> None:
    then = JobRecord("j", 1, published=3, manifest=manifest(1, (3, 1)), published_under=1)
    now = JobRecord("j", 2, published=9, manifest=manifest(2, (9, 2)), published_under=2)
    with pytest.raises(RecordUnreadable, match="of job other"):
        now.restoring(JobRecord("other", 1), 3)
    with pytest.raises(NoSafeCheckpoint, match="batches below 5 are expired"):
        now.expiring(5, 2).restoring(then, 3)
    elsewhere = JobRecord("j", 1, published=3, manifest={**manifest(1, (3, 1)), "output": "p"}, published_under=1)
    with pytest.raises(NoSafeCheckpoint, match="batch 3 under epoch 1"):
        now.restoring(elsewhere, 3)
    many = now
    for epoch in range(MOST_ABANDONED):
        many = many.restoring(then, 10 + epoch)
        many = many.publishing(4, manifest(9, (4, 10 + epoch)), 10 + epoch)
    with pytest.raises(NoSafeCheckpoint, match="was restored 16 times"):
        many.restoring(then, 99)


def test_histories_are_forgotten_once_all_their_batches_are_expired() -> None:
    then = JobRecord("j", 1, published=1, manifest=manifest(1, (1, 1)), published_under=1)
    now = JobRecord("j", 1, published=4, manifest=manifest(2, (4, 1)), published_under=1)
    back = now.restoring(then, 2).publishing(2, manifest(3, (2, 2)), 2)
    on = back.publishing(8, manifest(4, (8, 2)), 2)
    assert on.expiring(4, 2).forgetting().abandoned == back.abandoned
    assert on.expiring(5, 2).forgetting().abandoned == ()

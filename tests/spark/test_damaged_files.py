"""Damaged files of a job: whoever takes it over goes back as far as is safe, and no row is lost or doubled by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import milepost
from milepost.errors import CheckpointDamaged, RestartNeeded, WrongCheckpoint
from milepost.spark import JobRecovery
from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.spark.damaging import blob_of, flip
from tests.spark.jobs import Place, dying_in, finish
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import KINDS, PROVIDERS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

KIND = "aggregation"


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A service that keeps every file as a blob."""
    with ServerProcess(tmp_path_factory.mktemp("keeping"), *ALL_AS_BLOBS) as server:
        yield server.start()


@pytest.fixture
def job(place: Place, keeping: ServerProcess) -> Iterator[Place]:
    """A job there, with three files of input. Its state after each batch is in files that nothing can stand in for."""
    place.add_input(3)
    for key, value in PROVIDERS["rocksdb"].items():
        place.spark.conf.set(key, value)
    yield replace(place, url=keeping.url)
    for key in PROVIDERS["rocksdb"]:
        place.spark.conf.unset(key)


def run(job: Place, **options: Any) -> JobRecovery:
    """Lead the job to the end of its input; what its driver found."""
    with job.lead(**options) as led:
        finish(led, job.start(led, led.files(job.output), KIND))
        return led.recovery


def state(keeping: ServerProcess, job: Place, batch: int) -> Path:
    """A part of the state after a batch, where the service keeps it."""
    return blob_of(keeping, job.name, f"checkpoint/state/0/0/{batch + 1}.zip")


def check(job: Place, *ends: int) -> None:
    """Each batch is published once, and has the sums of all that was read until then: up to these files."""
    expected = KINDS[KIND].expected_of([[end] for end in ends])
    assert published_rows(job.url, job.name, Path(job.output)) == dict(enumerate(expected))


def test_a_driver_that_died_in_a_batch_left_a_state_that_is_gone(
    keeping: ServerProcess, job: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Its batch is run again with the same input, though other input has come; and so is the batch before it, whose
    state is gone, and which is published.
    """
    job.add_input(4)
    with dying_in(3):
        run(job)
    job.add_input(6)
    state(keeping, job, 2).unlink()
    with pytest.raises(CheckpointDamaged, match="it would go back to batch 1") as refused:
        run(job, if_damaged="refuse")
    assert refused.value.damaged == ("checkpoint/state/0/0/3.zip",)
    with pytest.raises(RestartNeeded, match="batch 3 anew"):
        run(job)
    assert "going back to batch 1 of the job" in caplog.text
    recovery = run(job)
    assert (recovery.resumes_at, recovery.replays, recovery.went_back_to, recovery.damaged) == (3, True, None, ())
    check(job, 0, 1, 2, 3, 5)  # Spark had logged file 4 when it planned batch 3 anew


@pytest.mark.long
def test_a_driver_that_ended_left_a_state_with_a_wrong_byte(keeping: ServerProcess, job: Place) -> None:
    """Their size tells nothing. Who goes on fails, and the third driver to begin the batch looks at each byte."""
    run(job)
    job.add_input(5)
    flip(state(keeping, job, 2))
    for _ in range(2):
        with job.lead() as led:
            query = job.start(led, led.files(job.output), KIND)
            with pytest.raises(StreamingQueryException):
                finish(led, query)
        assert (led.recovery.damaged, led.recovery.went_back_to) == ((), None)
    with pytest.raises(RestartNeeded):
        run(job)
    recovery = run(job, digests=True)
    assert (recovery.resumes_at, recovery.replays, recovery.damaged) == (3, True, ())
    check(job, *range(5))


@pytest.mark.long
def test_a_wrong_byte_is_found_at_once_by_who_looks_for_it(keeping: ServerProcess, job: Place) -> None:
    run(job)
    job.add_input(5)
    flip(state(keeping, job, 2))
    with milepost.Client(keeping.url) as client:
        files = client.store(job.name).files
        assert files.verify().intact
        found = files.verify(digests=True)
    assert [(snapshot.batch, snapshot.intact) for snapshot in found.kept.snapshots] == [
        (0, True),
        (1, True),
        (2, False),
    ]
    recovery = run(job, digests=True)
    assert (recovery.went_back_to, recovery.resumes_at, recovery.replays) == (1, 2, True)
    assert [file.path for file in recovery.damaged] == ["checkpoint/state/0/0/3.zip"]
    check(job, *range(5))


@pytest.mark.long
def test_where_older_cuts_are_damaged_too_nothing_is_safe(
    keeping: ServerProcess, job: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """One of them in the middle hinders nobody, until there is need to go back to it."""
    run(job)
    for files in (4, 5):  # the first of these drivers writes a file, which the second deletes
        job.add_input(files)
        with job.lead() as led:
            extra = f"{led.checkpointLocation}/extra"
            if files == 4:
                job.checkpoint().write_new(extra, b"seen by the snapshot of batch 3 alone")
            else:
                job.checkpoint().delete(extra)
            finish(led, job.start(led, led.files(job.output), KIND))
    hidden = [
        blob
        for blob in (keeping.directory / "blobs").rglob("*")
        if blob.is_file() and b"batch 3 alone" in blob.read_bytes()
    ]
    assert len(hidden) == 1
    hidden[0].unlink()
    caplog.clear()
    recovery = run(job)
    assert "cannot go back to: batch 3 of checkpoint" in caplog.text
    assert ([file.path for file in recovery.damaged], recovery.went_back_to) == (["checkpoint/extra"], None)
    newest = state(keeping, job, 4)
    content = newest.read_bytes()
    newest.unlink()
    with pytest.raises(CheckpointDamaged, match="only a snapshot of batch 3 or later would do") as refused:
        run(job)
    assert set(refused.value.damaged) == {"checkpoint/extra", "checkpoint/state/0/0/5.zip"}
    newest.write_bytes(content)
    job.add_input(6)
    assert run(job).went_back_to is None
    check(job, *range(6))


@pytest.mark.long
def test_what_every_cut_needs_is_damaged(keeping: ServerProcess, job: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody goes on, but who says so, as far as that comes; and what is put back is whole again."""
    run(job)
    job.add_input(4)
    shared = blob_of(keeping, job.name, "checkpoint/metadata")
    content = shared.read_bytes()
    shared.unlink()
    with pytest.raises(CheckpointDamaged, match=r"1 of the job's files are damaged.* Whole snapshots: none"):
        run(job)
    with pytest.raises(WrongCheckpoint, match="cannot read"):
        run(job, if_damaged="go-on")
    assert "going on all the same" in caplog.text
    shared.write_bytes(content)
    recovery = run(job)
    assert (recovery.damaged, recovery.went_back_to) == ((), None)
    check(job, *range(4))


def test_a_way_that_there_is_not(job: Place) -> None:
    with pytest.raises(ValueError, match="'fall back' is not a valid IfDamaged"), job.lead(if_damaged="fall back"):
        pass

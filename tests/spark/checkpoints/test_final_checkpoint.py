"""The final checkpoint of a run is registered where it is complete beyond doubt, and left out otherwise."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from milepost.spark.checkpoints.final_checkpoint import register_final_checkpoint
from milepost.spark.checkpoints.snapshotter import Snapshotter
from milepost.spark.pointer import JobPointer
from milepost.spark.record import JobCheckpoint, JobRecord
from milepost.spark.store import SettlingStore
from tests.spark.checkpoints.directories import log, put


class Run:
    """A query of two partitions that has published batches 0 and 1; of batch 1 Spark's commit is not there yet."""

    def __init__(self, certain: SettlingStore, directory: Path) -> None:
        self.directory = directory
        self.pointer = JobPointer.take(certain)
        self.snapshotter = Snapshotter(certain, directory)
        for batch in (0, 1):
            log(directory, batch, committed=False)
            self.pointer.move(self.pointer.record.entering(self.snapshotter.take(batch, committed=False), 2))
            self.pointer.move(self.pointer.record.publishing(batch, None, certain.epoch))
            if batch == 0:
                self.state(0, 1)
                self.state(1, 1)
                log(directory, 0, committed=True)

    def state(self, partition: int, version: int) -> None:
        put(self.directory, f"state/0/{partition}/{version}.delta", f"state {version}")

    def end(self) -> bool:
        return register_final_checkpoint(self.pointer, self.snapshotter, 2)


@pytest.fixture
def run(certain: SettlingStore, tmp_path: Path) -> Run:
    return Run(certain, tmp_path / "e1")


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "milepost.spark.checkpoints.final_checkpoint")
    return caplog


def newest(record: JobRecord) -> JobCheckpoint:
    return record.checkpoints[0]


def test_the_next_driver_goes_on_behind_a_batch_that_spark_has_committed(run: Run) -> None:
    run.state(0, 2)
    run.state(1, 2)
    log(run.directory, 1, committed=True)
    assert run.end()
    assert newest(run.pointer.record).resumes_at == 2


def test_without_sparks_commit_there_is_no_final_checkpoint(run: Run, logged: pytest.LogCaptureFixture) -> None:
    """All of its state is there: the next driver would not know the watermark that the commit tells."""
    run.state(0, 2)
    run.state(1, 2)
    assert not run.end()
    assert newest(run.pointer.record).resumes_at == 1
    assert logged.messages == ["no final checkpoint is registered: Spark did not commit batch 1"]


def test_without_the_state_of_a_partition_there_is_no_final_checkpoint(
    run: Run, logged: pytest.LogCaptureFixture
) -> None:
    """With the commit alone the next driver would look for state that nobody has."""
    run.state(0, 2)
    log(run.directory, 1, committed=True)
    assert not run.end()
    assert newest(run.pointer.record).resumes_at == 1
    assert logged.messages == ["no final checkpoint is registered: state/0/1 did not commit batch 1"]


def test_a_final_checkpoint_is_registered_once(run: Run, logged: pytest.LogCaptureFixture) -> None:
    run.state(0, 2)
    run.state(1, 2)
    log(run.directory, 1, committed=True)
    assert run.end()
    assert not run.end()
    assert logged.messages == [
        "no final checkpoint is registered: the checkpoint after batch 1 (epoch 1) is registered already"
    ]


def test_a_run_that_published_nothing_has_no_final_checkpoint(
    certain: SettlingStore, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    pointer = JobPointer.take(certain)
    assert not register_final_checkpoint(pointer, Snapshotter(certain, tmp_path), 2)
    assert logged.messages == ["no final checkpoint is registered: nothing was published"]

"""A driver that stood still finds what its successor has done meanwhile, and takes that for nothing else. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from milepost.errors import (
    BatchTimeout,
    Fenced,
    NoSafeCheckpoint,
    RecordUnreadable,
    RestartNeeded,
    SparkDriverError,
    UnsafeQuery,
    WrongCheckpoint,
)
from milepost.job_record import JobRecord
from milepost.spark import Job
from milepost.spark.pointer import ResolvingStore
from milepost.spark.recovery import JobRecovery, recover
from tests.spark.jobs import made_up
from tests.spark.logs import Logs, left


def store(current: int) -> ResolvingStore:
    """The store of the driver of epoch 1, while this epoch is current."""
    plain: Any = SimpleNamespace(epoch=1, current_epoch=lambda: SimpleNamespace(epoch=current))
    return ResolvingStore(plain, outage_timeout=0.0)


class Moving(Logs):
    """A checkpoint in which another driver commits three batches between two looks."""

    def names(self, directory: str) -> list[str]:
        found = super().names(directory)
        if directory == "offsets":
            self.files |= left(8, 8).files
        return found


def found(current: int) -> JobRecovery:
    logs = Moving()
    logs.files = left(5, 5).files
    with store(current).or_fenced():
        return recover(logs, JobRecord("job", 1, 5), 1, job="flights", setting=lambda _: None, modified_ms=lambda _: 0)


def test_logs_that_a_successor_goes_on_with_are_not_taken_for_broken_ones() -> None:
    """So the driver stands by again, where it had ended."""
    with pytest.raises(Fenced, match="epoch 2 leads this job") as fenced:
        found(2)
    assert isinstance(fenced.value.__cause__, NoSafeCheckpoint)
    with pytest.raises(NoSafeCheckpoint, match="no query leaves them so"):
        found(1)


def failed(failure: Exception, current: int) -> Job:
    """A job of epoch 1 whose function has raised this."""
    pointer: Any = SimpleNamespace(record=JobRecord("job", 1, 3), store=store(current))
    job = made_up(pointer)
    job.exactlyOnce(lambda *_: None)
    assert job._function is not None
    job._function.failure = failure
    return job


@pytest.mark.parametrize("kind", [WrongCheckpoint, NoSafeCheckpoint, RestartNeeded, RecordUnreadable, UnsafeQuery])
def test_what_a_function_found_wrong_may_be_the_work_of_a_successor(kind: type[SparkDriverError]) -> None:
    """It has put offsets back, tidied up pages of output, or removed commits of state."""
    with pytest.raises(Fenced) as fenced:
        failed(kind("as it seemed"), 2).raise_end()
    assert isinstance(fenced.value.__cause__, kind)
    with pytest.raises(kind, match="as it seemed"):
        failed(kind("as it seemed"), 1).raise_end()


def test_a_driver_that_gave_up_says_why_and_not_who_leads_since() -> None:
    job = failed(ValueError("a consequence"), 2)
    assert job._function is not None
    job._function.failure = None
    job.fail(late := BatchTimeout("too long"))
    with pytest.raises(BatchTimeout) as raised:
        job._raise_own(None)
    assert raised.value is late

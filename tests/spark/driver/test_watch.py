"""Batches that do not end, or never get anywhere, and services that know nothing of the job."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

import milepost
from milepost.errors import BatchTimeout, JobUnknown, NoProgress
from milepost.spark import BatchContext
from testbed.server import ServerProcess
from tests.client.renewals import wait_for_renewal
from tests.spark.jobs import Place, finish
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def test_a_batch_over_its_limit_is_stopped_and_the_epoch_given_up(place: Place, client: milepost.Client) -> None:
    """Already the first one, so that no busy machine makes one before it late."""
    published, sleeping_batches = list[int](), list[int]()

    def sleeping(_frame: DataFrame, context: BatchContext) -> None:
        if not sleeping_batches:
            sleeping_batches.append(context.batchId)
            jvm: Any = place.spark.sparkContext._jvm
            with pytest.raises(Py4JJavaError, match="InterruptedException"):
                jvm.java.lang.Thread.sleep(120_000)

    with (
        pytest.raises(BatchTimeout, match=r"batch 0 takes longer than 2 s"),
        place.lead(batch_timeout=2.0, ttl=120.0) as job,
    ):
        finish(job, place.start(job, job.exactlyOnce(sleeping)))
    store = client.session("a standby").store(place.name)
    assert store.campaign(60.0).epoch == 2
    store.resign()
    place.run(lambda _, context: published.append(context.batchId))
    assert published == [0, 1]


@pytest.mark.parametrize("asked_by", ["batch_timeout", "SIGTERM"])
def test_a_driver_whose_function_hangs_in_python_ends(
    place: Place, service: ServerProcess, java_options: str, name: str, tmp_path: Path, asked_by: str
) -> None:
    """Nothing stops such a function; the driver ends all the same, and its standby leads."""
    setup = Setup(
        url=service.url,
        store=name,
        kind="stateless",
        provider="hdfs",
        input=str(place.input),
        output=place.output,
        scratch=str(tmp_path / "scratch"),
        events=str(tmp_path / "hanging.events"),
        java_options=java_options,
        pause="before writing",
        go=str(tmp_path / "never"),
        ttl=60.0,
        batch_timeout=3.0 if asked_by == "batch_timeout" else None,
        grace=0.5,
        stuck=0.5,
    )
    with Driver(setup) as driver:
        if asked_by == "SIGTERM":
            driver.wait_for("paused")
            driver.terminate()
        assert driver.wait_for("ended")["error"] == "BatchTimeout"
        assert driver.wait() == 0
    with place.lead() as job:
        assert job.epoch == 2
        finish(job, place.start(job, job.files(place.output)))
        assert job.published == 1


def test_a_batch_that_was_entered_too_often_is_not_entered_again(place: Place) -> None:
    entered: list[int] = []

    def failing(_frame: DataFrame, context: BatchContext) -> None:
        entered.append(context.batchId)
        raise KeyError("no such place")

    for _ in range(2):
        with place.lead(max_entries=2) as job, pytest.raises(StreamingQueryException):
            finish(job, place.start(job, job.exactlyOnce(failing)))
    with pytest.raises(NoProgress, match="batch 0 was entered 2 times"), place.lead(max_entries=2):
        pass
    assert entered == [0, 0]
    with place.lead(max_entries=3) as job:
        finish(job, place.start(job, job.exactlyOnce(lambda *_: None)))


def test_a_batch_in_which_python_stands_still_ends_its_driver_with_the_ttl_that_it_takes(place: Place) -> None:
    """At the first time already, since `max_entries` allows no other."""

    def standing_still(_frame: DataFrame, _context: BatchContext) -> None:
        wait_for_renewal(job._session)
        ctypes.PyDLL(None).sleep(11)  # PyDLL keeps the interpreter's lock during a call

    with (
        pytest.raises(NoProgress, match=r"batch 0 was begun 1 times .*Python stood still for .* a ttl of at least"),
        place.lead(max_entries=1, ttl=10.0) as job,
    ):
        finish(job, place.start(job, job.exactlyOnce(standing_still)))


def test_a_service_that_does_not_know_the_job_is_refused_where_it_must(place: Place, client: milepost.Client) -> None:
    with pytest.raises(JobUnknown, match="knows no such job"), place.lead(must_exist=True):
        pass
    assert list(client.store(place.name).get_all_handles()) == []
    place.run(lambda *_: None)
    with place.lead(must_exist=True) as job:
        assert job.published == 1


@pytest.mark.parametrize("limit", ["jvm_timeout", "batch_timeout", "max_entries"])
def test_limits_of_nothing(place: Place, limit: str) -> None:
    with pytest.raises(ValueError, match=limit), place.lead(**{limit: 0}):
        pass

"""Spark's JVM hangs or dies while its Python lives on: the driver says so and ends, and its standby goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.jobs import Place, finish
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import KINDS
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize(
    ("number", "whom"), [(signal.SIGSTOP, "jvm"), (signal.SIGKILL, "jvm"), (signal.SIGTERM, "both")]
)
def test_a_jvm_that_answers_no_more(
    place: Place, service: ServerProcess, java_options: str, tmp_path: Path, number: signal.Signals, whom: str
) -> None:
    """Its session lives on, and would for ever: only who asks the JVM itself can know.

    A JVM that ends by the driver's own SIGTERM, as in one group of processes, fails the batch that runs; the driver
    ends as if it were alone.
    """
    setup = Setup(
        url=service.url,
        store=place.name,
        kind="aggregation",
        provider="hdfs",
        input=str(place.input),
        output=place.output,
        scratch=str(tmp_path / "scratch"),
        events=str(tmp_path / "driver.events"),
        java_options=java_options,
        pause="before writing",
        pause_at=2,
        go=str(tmp_path / "go"),
        ttl=120.0,
        jvm_timeout=10.0,
    )
    with Driver(setup) as driver:
        driver.wait_for("paused")
        assert driver.send(number, whom)
        if whom == "both":
            assert driver.wait() == 128 + number, driver.failed("has another status")
            assert driver.event("ended") is None
        else:
            assert driver.wait_for("ended")["error"] == "JvmLost"
            assert driver.wait() == 0
    with place.lead() as job:
        assert (job.epoch, job.published) == (2, 0)
        finish(job, place.start(job, job.files(place.output), "aggregation"))
    rows = published_rows(service.url, place.name, Path(place.output))
    assert rows == dict(enumerate(KINDS["aggregation"].expected(2)))

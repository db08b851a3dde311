"""``milepost run`` over a driver that hangs, or whose batch never ends or always fails: it ends as docs/run.md says."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.supervise.sums import Sums
from tests.spark.supervise.supervised import Supervised, spark_submit

pytestmark = [pytest.mark.spark, pytest.mark.long]

FAILING = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()

def publish(frame, batch):
    raise KeyError(f"batch {batch} always fails")

rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "100").load()
rows.writeStream.queryName("failing").foreachBatch(publish).start().awaitTermination()
"""
TTL = 3.0


def test_a_jvm_that_hangs_leads_on_until_somebody_ends_it(
    service: ServerProcess, java_options: str, jar: Path, name: str, sums: Sums, tmp_path: Path
) -> None:
    job = sums.command(java_options, jar, 6, 500)
    hanging = Supervised(service.url, name, tmp_path / "hanging", ["--ttl", f"{TTL:g}", "--grace", "1"], job)
    standby = Supervised(service.url, name, tmp_path / "standby", ["--standby"], job)
    with hanging:
        hanging.until(lambda: sums.entered(2))
        hanging.send_command(signal.SIGSTOP)
        with standby:
            standby.says("standing by")
            time.sleep(2 * TTL)  # to see that nothing happens
            assert standby.starts() == []
            hanging.send(signal.SIGTERM)
            assert hanging.ended() == 128 + signal.SIGKILL
            standby.until(lambda: sums.entered(6))
            assert standby.ended() == 0, standby.log()[-6000:]
        assert [epoch for epoch, _ in hanging.starts() + standby.starts()] == [1, 2]
    sums.check(6)


def test_a_batch_that_hangs_ends_with_its_driver(
    service: ServerProcess, java_options: str, jar: Path, name: str, sums: Sums, tmp_path: Path
) -> None:
    job = sums.command(java_options, jar, 1, 3_600_000)
    with Supervised(service.url, name, tmp_path / "log", ["--grace", "30"], job) as run:
        run.until(lambda: sums.entered(0))
        run.send(signal.SIGTERM)
        assert run.ended() in (128 + signal.SIGTERM, 128 + signal.SIGKILL)
    with Supervised(service.url, name, tmp_path / "log", [], sums.command(java_options, jar, 1, 0)) as run:
        assert run.ended() == 0, run.log()[-6000:]
    sums.check(1)


def test_a_batch_that_always_fails_is_given_up(
    service: ServerProcess, java_options: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(FAILING)
    submitted = " ".join(f"'{option}'" for option in [*spark_submit(java_options)[1:], "pyspark-shell"])
    command = [sys.executable, str(tmp_path / "job.py")]
    with Supervised(
        service.url, name, tmp_path / "log", ["--restarts", "1"], command, PYSPARK_SUBMIT_ARGS=submitted
    ) as run:
        run.until(lambda: len(run.starts()) == 2)
        assert run.ended() == 1
        assert [epoch for epoch, _ in run.starts()] == [1, 2]
        assert run.log().count("batch 0 always fails") >= 2
        assert "giving up, after 1 restarts within 600 s" in run.log()

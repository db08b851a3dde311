"""Commands that are no spark-submit of a jar: a Connect server with a client in Java, and a Python program."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.supervise.agent import LISTENERS
from testbed.ports import Port
from testbed.server import ServerProcess
from tests.spark.supervise.jars import java
from tests.spark.supervise.supervised import Supervised, input_rows, names, spark_home, spark_submit
from tests.spark.under_test.process import DEADLINE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.long]

JOB = """
import os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "100").load().selectExpr("value % 10 AS k")
last = int(sys.argv[1])

def publish(frame, batch):
    print("batch", batch, sorted((row.k, row["count"]) for row in frame.collect()), flush=True)
    if batch == last:
        os._exit(0)  # in the middle of it

writer = rows.groupBy("k").count().writeStream.outputMode("update").foreachBatch(publish)
writer.option("checkpointLocation", os.environ["MILEPOST_CHECKPOINT_LOCATION"]).start().awaitTermination()
"""


def test_a_client_of_a_connect_server_that_was_killed_goes_on(
    service: ServerProcess, java_options: str, classes: Path, name: str, tmp_path: Path
) -> None:
    """The server comes back by itself; the query does when its client starts it again."""
    home, port = spark_home(), Port()
    server = ["bash", str(home / "sbin" / "start-connect-server.sh"), *spark_submit(java_options)[1:]]
    server += ["--conf", f"spark.connect.grpc.binding.port={port.number}"]

    def client(last: int) -> subprocess.Popen[str]:
        jars = f"{classes}:{home}/jars/connect-repl/*:{home}/jars/*"
        command = [java(), *java_options.split()[:2], "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", jars]
        arguments = [f"sc://{port.address}", str(tmp_path / "output"), str(last)]
        return subprocess.Popen([*command, "Remote", *arguments], stdout=subprocess.PIPE, text=True)

    with Supervised(service.url, name, tmp_path / "log", [], server, SPARK_HOME=str(home)) as run:
        run.says("Spark Connect server started")
        with client(1_000_000) as first:
            try:
                run.until((tmp_path / "output" / "_spark_metadata" / "2").exists)
                run.send_command(signal.SIGKILL)
                run.until(lambda: run.log().count("Spark Connect server started") == 2)
            finally:
                first.kill()
        with client(5) as second:
            output, _ = second.communicate(timeout=DEADLINE_SECONDS)
        (found,) = re.findall(r"^found (\d+) (\d+) (\d+)$", output, re.MULTILINE)
        rows, distinct, highest = map(int, found)
        assert rows == distinct == highest + 1
        assert rows >= 600
        assert names(service, f"{name}/checkpoint/queries") == ["remote"]
        run.send(signal.SIGTERM)
        assert run.ended() in (0, 143), run.log()[-6000:]
        assert [epoch for epoch, _ in run.starts()] == [1, 2]
        known = input_rows(service, name, "checkpoint/queries/remote", 5, killed=1)
        assert len(known) >= 5
        if 0 in known:  # Spark does not read a batch again that the sink has, whose driver was killed before the commit
            known.remove(0)
        assert set(known) == {100}


def test_a_python_program_keeps_its_own_options(
    service: ServerProcess, java_options: str, jar: Path, name: str, tmp_path: Path
) -> None:
    """A listener of its own, too: then the history does not have the rows."""
    (tmp_path / "job.py").write_text(JOB)
    own = ["--driver-class-path", str(jar), "--conf", f"{LISTENERS}=Heard"]

    def ran(last: int, *options: str) -> tuple[int, str]:
        options = (*spark_submit(java_options)[1:], *options, "pyspark-shell")
        submitted = " ".join(f"'{option}'" for option in options)
        command = [sys.executable, str(tmp_path / "job.py"), str(last)]
        log = tmp_path / f"log-{last}"
        with Supervised(service.url, name, log, [], command, PYSPARK_SUBMIT_ARGS=submitted) as run:
            return run.ended(), run.log()

    batches = [f"batch {number} {[(key, 10 * (number + 1)) for key in range(10)]}\n" for number in range(5)]
    status, told = ran(2)
    assert status == 0, told[-6000:]
    assert batches[2] in told
    assert input_rows(service, name, "checkpoint", 1) == [100, 100]
    status, told = ran(4, *own)
    assert status == 0, told[-6000:]
    assert "heard of batch 3" in told
    assert f"the job has listeners of its own (PYSPARK_SUBMIT_ARGS: --conf {LISTENERS}=Heard)" in told
    assert input_rows(service, name, "checkpoint", 3) == [100, 100, None, None]
    assert "batch 1 " not in told
    assert all(batch in told for batch in batches[2:])

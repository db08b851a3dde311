"""A Spark Connect server under ``milepost run``, and a client in Python that starts its queries there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.ports import Port
from tests.spark.guarantees.gate import Gate
from tests.spark.guarantees.led import ends
from tests.spark.guarantees.outputs import ROWS, Outputs, Repeated, repeated
from tests.spark.guarantees.program import Setup
from tests.spark.guarantees.run import FIRST, SECOND, THIRD, Run
from tests.spark.supervise.supervised import Supervised, spark_home, spark_submit
from tests.spark.under_test.process import Driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

SINKS = ("parquet", "tree", "kafka", "foreach")
_PROGRAM = "tests.spark.guarantees.client"
_STARTED = "Spark Connect server started"


class Connect:
    """The trial. Each driver is a server, and gets a client; ``ends`` is how the queries of the late one have ended."""

    def __init__(
        self, job: str, outputs: Outputs, gate: Gate, java_options: str, extra_jars: str, stack: ExitStack
    ) -> None:
        self.outputs = outputs
        self._ports = {number: Port() for number in (1, 2)}
        self._clients: dict[int, Driver] = {}
        self._stack = stack
        self._setup = Setup(
            url="",
            job=job,
            sinks=SINKS,
            directory=str(outputs.directory),
            tree=outputs.tree,
            kafka=outputs.topics.address,
            target=outputs.topic,
            events="",
            java_options="",
            jars="",
            go=str(outputs.directory / "go"),
        )
        settings = {"spark.master": "local[8]", "spark.jars": extra_jars}

        def server(number: int) -> list[str]:
            script = str(spark_home() / "sbin" / "start-connect-server.sh")
            port = f"spark.connect.grpc.binding.port={self._ports[number].number}"
            return ["bash", script, *spark_submit(java_options, settings=settings)[1:], "--conf", port]

        places = {"SPARK_HOME": str(spark_home()), "SPARK_PID_DIR": str(outputs.directory)}
        run = Run(gate, job, outputs, SINKS, server, outputs.directory, self._began, places)
        run.go(lambda _: self._clients[SECOND].event("finished") is not None, self._finished)
        self.ends = ends(self._clients[SECOND])

    def _began(self, number: int, run: Supervised) -> None:
        """Start a client once the server is there; that of the server before ends with it."""
        run.until(lambda: run.log().count(_STARTED) == len(run.starts()))
        if number == SECOND:
            self._clients[FIRST].kill()
        port = self._ports[2 if number == SECOND else 1]
        events = self.outputs.directory / f"client-{number}.events"
        setup = replace(self._setup, url=f"sc://{port.address}", events=str(events))
        self._clients[number] = self._stack.enter_context(Driver(setup, _PROGRAM))

    def _finished(self, _: Supervised) -> None:
        self._clients[THIRD].wait_for("finished")
        assert set(ends(self._clients[THIRD]).values()) == {"well"}, self._clients[THIRD].failed("did not finish well")


@pytest.fixture(scope="module")
def trial(
    begin: Callable[[str], tuple[str, Outputs]], guarded: Gate, java_options: str, extra_jars: str
) -> Iterator[Connect]:
    """The trial, once for all cells."""
    with ExitStack() as stack:
        yield Connect(*begin("connect"), guarded, java_options, extra_jars, stack)


def test_parquet_files_on_a_directory_are_exact(trial: Connect, spark: SparkSession) -> None:
    directory: Path = trial.outputs.directory / "parquet"
    assert repeated(trial.outputs.parquet(spark, str(directory))) == Repeated(0, 0)
    assert "Race while writing batch 2" in trial.ends["parquet"], trial.ends


def test_parquet_files_in_the_tree_of_the_job_are_exact(trial: Connect, spark: SparkSession) -> None:
    assert repeated(trial.outputs.parquet(spark, trial.outputs.tree)) == Repeated(0, 0)
    assert trial.ends["tree"] != "well"


@pytest.mark.parametrize("sink", ["kafka", "foreach"])
def test_what_knows_no_batches_has_the_batch_in_flight_twice(trial: Connect, sink: str) -> None:
    found = trial.outputs.kafka() if sink == "kafka" else trial.outputs.lines("foreach")
    assert repeated(found) == Repeated(ROWS, ROWS)
    assert trial.ends[sink] != "well"

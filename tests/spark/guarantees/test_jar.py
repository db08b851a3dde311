"""A jar in Java with no line of Milepost in it, under ``milepost run``: each sink of Spark's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.guarantees.gate import Gate
from tests.spark.guarantees.outputs import HELD, ROWS, Outputs, Repeated, repeated
from tests.spark.guarantees.run import Run
from tests.spark.supervise.supervised import Supervised, spark_submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

SINKS = ("parquet", "tree", "kafka", "foreach")


class Jar:
    """The trial of the jar; ``ends`` is how the queries of the driver that came too late have ended."""

    def __init__(self, job: str, outputs: Outputs, gate: Gate, java_options: str, jar: Path, extra_jars: str) -> None:
        self.outputs = outputs
        arguments = [str(outputs.input), str(outputs.directory), outputs.tree, outputs.topics.address, outputs.topic]
        settings = {"spark.master": "local[8]", "spark.jars": extra_jars}
        command = spark_submit(java_options, "--class", "Sinks", str(jar), *arguments, str(HELD), settings=settings)
        self.ends: dict[str, str] = {}
        Run(gate, job, outputs, SINKS, lambda _: command, outputs.directory).go(self._late, _finished)

    def _late(self, run: Supervised) -> bool:
        self.ends = dict(re.findall(r"^ended (\w+): (.*)$", run.log(), re.MULTILINE))
        return set(self.ends) == set(SINKS)


def _finished(run: Supervised) -> None:
    assert run.ended() == 0, run.log()[-6000:]


@pytest.fixture(scope="module")
def trial(
    begin: Callable[[str], tuple[str, Outputs]], guarded: Gate, java_options: str, jar: Path, extra_jars: str
) -> Jar:
    """The trial, once for all cells."""
    return Jar(*begin("jar"), guarded, java_options, jar, extra_jars)


def test_parquet_files_on_a_directory_are_exact(trial: Jar, spark: SparkSession) -> None:
    """The sink has a log of its own, by the number of the batch; who comes late finds his batch in it."""
    outputs = trial.outputs
    assert repeated(outputs.parquet(spark, f"{outputs.directory}/parquet")) == Repeated(0, 0)
    assert "Race while writing batch 2" in trial.ends["parquet"], trial.ends


def test_parquet_files_in_the_tree_of_the_job_are_exact(trial: Jar, spark: SparkSession) -> None:
    """There the late write is refused: by the fence, or because its bytes were too long in coming."""
    assert repeated(trial.outputs.parquet(spark, trial.outputs.tree)) == Repeated(0, 0)
    assert re.search("AccessControlException|did not arrive in time", trial.ends["tree"]), trial.ends


@pytest.mark.parametrize("sink", ["kafka", "foreach"])
def test_what_knows_no_batches_has_the_batch_in_flight_twice(trial: Jar, sink: str) -> None:
    found = trial.outputs.kafka() if sink == "kafka" else trial.outputs.lines("foreach")
    assert repeated(found) == Repeated(ROWS, ROWS)
    assert re.search("AccessControlException|CONCURRENT_STREAM_LOG_UPDATE", trial.ends[sink]), trial.ends

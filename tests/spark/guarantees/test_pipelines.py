"""A declarative pipeline under ``milepost run``, in SQL and Python: streaming tables, and sinks of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.guarantees.gate import Gate
from tests.spark.guarantees.outputs import ROWS, Outputs, Repeated, held, repeated
from tests.spark.guarantees.run import Run
from tests.spark.supervise.supervised import Supervised, spark_home
from tests.spark.under_test.process import DEADLINE_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

SINKS = ("numbers", "distinct", "parquet", "tree", "kafka")
DISTINCT = 50
"""How many values are told apart by the table with state: fewer than there are rows."""

FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.temporary_view
def source():
    return spark.readStream.schema("v LONG").option("maxFilesPerTrigger", 1).json("{directory}/in")

@dp.table
def distinct():
    return spark.readStream.table("source").selectExpr("v % {distinct} AS v").dropDuplicates(["v"])

dp.create_sink("parquet", "parquet", {{"path": "{directory}/parquet"}})
dp.create_sink("tree", "parquet", {{"path": "{tree}"}})
dp.create_sink("kafka", "kafka", {{"kafka.bootstrap.servers": "{kafka}", "topic": "{topic}"}})

@dp.append_flow(target="parquet", name="parquet")
def parquet():
    return spark.readStream.table("source").selectExpr("{parquet} AS v")

@dp.append_flow(target="tree", name="tree")
def tree():
    return spark.readStream.table("source").selectExpr("{held_tree} AS v")

@dp.append_flow(target="kafka", name="kafka")
def kafka():
    values = spark.readStream.table("source").selectExpr("CAST({held} AS STRING) AS value")
    return values.selectExpr("value AS key", "value")
"""
TABLE = "CREATE STREAMING TABLE numbers AS SELECT {numbers} AS v FROM STREAM source"
SPEC = """
name: guarantees
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
_WITH_FOREACH = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

dp.create_sink("lines", "foreach")

@dp.append_flow(target="lines", name="lines")
def lines():
    return SparkSession.active().readStream.schema("k LONG").json("{input}")
"""
_REFUSED_SPEC = """
name: refused
storage: file://{directory}/checkpoint
configuration:
  spark.sql.pipelines.maxFlowRetryAttempts: "0"
libraries:
  - glob:
      include: flows.py
"""


class Pipeline:
    """The trial, without the driver that comes too late: on one machine two pipelines meet at the port of Connect.

    The catalog is Derby's, which lets one process in at a time: the second driver gets a copy.
    """

    def __init__(self, job: str, outputs: Outputs, gate: Gate, java_options: str, extra_jars: str) -> None:
        self.outputs = outputs
        directory = outputs.directory
        (directory / "transformations").mkdir()
        flows = FLOWS.format(
            directory=directory,
            kafka=outputs.topics.address,
            topic=outputs.topic,
            tree=outputs.tree,
            distinct=DISTINCT,
            parquet=held(directory, "parquet"),
            held_tree=held(directory, "tree"),
            held=held(directory, "kafka"),
        )
        (directory / "transformations" / "flows.py").write_text(flows)
        (directory / "transformations" / "table.sql").write_text(TABLE.format(numbers=held(directory, "numbers")))
        storage = f"webhdfs://{gate.address}/jobs/{job}/checkpoint"
        (directory / "spark-pipeline.yml").write_text(SPEC.format(storage=storage))

        def command(number: int) -> list[str]:
            program = [str(spark_home() / "bin" / "spark-pipelines"), "run", "--remote", "local[8]"]
            program += ["--spec", str(directory / "spark-pipeline.yml")]
            return ["bash", "-e", self._script(number), *program]

        places = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_SUBMIT_OPTS": java_options,
            # Not as spark.jars: pipelines look up the class of java_method where only the class path is known.
            "SPARK_DIST_CLASSPATH": extra_jars.replace(",", ":"),
        }
        run = Run(gate, job, outputs, SINKS, command, directory, environment=places)
        run.go(None, _finished)

    def _script(self, number: int) -> str:
        """A script that gives the pipeline its settings by its JVM: with ``--remote`` it did not take ``--conf``."""
        directory = self.outputs.directory
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.catalogImplementation": "hive",
            "derby.stream.error.file": str(directory / "derby.log"),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": (
                f"jdbc:derby:;databaseName={directory}/catalog-{number};create=true"
            ),
        }
        lines = [f'export JDK_JAVA_OPTIONS="$JDK_JAVA_OPTIONS {" ".join(f"-D{k}={v}" for k, v in settings.items())}"']
        if number == 2:
            lines.append(f"cp -r '{directory}/catalog-1' '{directory}/catalog-2'")
        path = directory / f"pipeline-{number}.sh"
        path.write_text("\n".join([*lines, 'exec "$@"']) + "\n")
        return str(path)


def _finished(run: Supervised) -> None:
    assert run.ended() == 0, run.log()[-6000:]


@pytest.fixture(scope="module")
def trial(begin: Callable[[str], tuple[str, Outputs]], guarded: Gate, java_options: str, extra_jars: str) -> Pipeline:
    """The trial, once for all cells."""
    return Pipeline(*begin("pipeline"), guarded, java_options, extra_jars)


@pytest.mark.parametrize("place", ["warehouse/numbers", "parquet", "tree"])
def test_streaming_tables_and_sinks_of_parquet_are_exact(trial: Pipeline, spark: SparkSession, place: str) -> None:
    path = trial.outputs.tree if place == "tree" else f"{trial.outputs.directory}/{place}"
    assert repeated(trial.outputs.parquet(spark, path)) == Repeated(0, 0)


def test_a_table_with_state_is_exact(trial: Pipeline, spark: SparkSession) -> None:
    """It drops what drivers before have let through, and nothing else."""
    found = trial.outputs.parquet(spark, f"{trial.outputs.directory}/warehouse/distinct")
    assert found == Counter(range(DISTINCT))


def test_a_sink_of_kafka_has_the_batch_in_flight_twice(trial: Pipeline) -> None:
    assert repeated(trial.outputs.kafka()) == Repeated(ROWS, 0)


def test_a_pipeline_has_no_way_to_name_the_function_of_foreach(tmp_path: Path, java_options: str) -> None:
    """A sink is a format and texts for its options. A dry run takes this one all the same, and a run fails."""
    (tmp_path / "flows.py").write_text(_WITH_FOREACH.format(input=tmp_path))
    (tmp_path / "spark-pipeline.yml").write_text(_REFUSED_SPEC.format(directory=tmp_path))
    command = [str(spark_home() / "bin" / "spark-pipelines"), "run", "--remote", "local[2]"]
    settings = {"SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [*command, "--spec", str(tmp_path / "spark-pipeline.yml")],
        cwd=tmp_path,
        env={**os.environ, **settings, "JDK_JAVA_OPTIONS": f"{java_options} -Dspark.ui.enabled=false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout[-6000:]
    assert 'Cannot invoke "org.apache.spark.sql.ForeachWriter.open(long, long)" because "writer" is null' in ran.stdout

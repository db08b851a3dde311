"""PySpark with `milepost.spark.lead`: job.files, job.exactlyOnce, and each sink of Spark's own."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import milepost.spark
from testbed.postgresql import PostgresqlServer
from tests.spark.guarantees.gate import Gate
from tests.spark.guarantees.led import Led
from tests.spark.guarantees.outputs import ROWS, Outputs, Repeated, repeated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

SINKS = ("files", "once", "jdbc", "parquet", "tree", "kafka", "foreach")


@pytest.fixture(scope="module")
def trial(
    begin: Callable[[str], tuple[str, Outputs]],
    guarded: Gate,
    java_options: str,
    extra_jars: str,
    database: PostgresqlServer,
) -> Led:
    """The trial, once for all cells."""
    account = "&".join(f"{name}={value}" for name, value in database.properties.items())
    led = Led(*begin("python"), guarded, SINKS, java_options, extra_jars, f"{database.url}?{account}")
    led.go()
    return led


def test_job_files_are_exact(trial: Led, spark: SparkSession) -> None:
    """Killed with the files of the batch written and the batch not published; late with the same."""
    published = milepost.spark.read_published(spark, trial.gate.url, f"{trial.job}-files")
    assert repeated(Counter(row.v for row in published.collect())) == Repeated(0, 0)
    assert trial.refused("files"), trial.ends


def test_job_exactly_once_is_exact_where_the_sink_compares_the_batch(trial: Led) -> None:
    with sqlite3.connect(trial.outputs.directory / "once") as database:
        found = Counter[int](value for (value,) in database.execute("SELECT v FROM numbers"))
    assert repeated(found) == Repeated(0, 0)
    assert trial.refused("once"), trial.ends


def test_a_table_of_the_jdbc_sink_is_exact(trial: Led, database: PostgresqlServer) -> None:
    found = Counter[int](int(value) for (value,) in database.query("SELECT v FROM numbers"))
    assert repeated(found) == Repeated(0, 0)
    assert trial.refused("jdbc"), trial.ends


def test_parquet_files_on_a_directory_are_exact(trial: Led, spark: SparkSession) -> None:
    """The sink has a log of its own, by the number of the batch; who comes late finds his batch in it."""
    directory = trial.outputs.directory / "parquet"
    assert repeated(trial.outputs.parquet(spark, str(directory))) == Repeated(0, 0)
    assert trial.refused("parquet"), trial.ends


def test_parquet_files_in_the_tree_of_the_job_are_exact(trial: Led, spark: SparkSession) -> None:
    assert repeated(trial.outputs.parquet(spark, trial.outputs.tree)) == Repeated(0, 0)
    assert trial.refused("tree"), trial.ends


@pytest.mark.parametrize("sink", ["kafka", "foreach"])
def test_what_knows_no_batches_has_the_batch_in_flight_twice(trial: Led, sink: str) -> None:
    found = trial.outputs.kafka() if sink == "kafka" else trial.outputs.lines("foreach")
    assert repeated(found) == Repeated(ROWS, ROWS)
    assert trial.refused(sink), trial.ends

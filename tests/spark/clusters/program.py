"""The driver under test: a query over Kafka, whose checkpoint is in the tree of a store, under an epoch of its own.

It is started by ``python -m tests.spark.clusters.program SETUP``. Whoever leads writes its files; the others wait.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import milepost
from milepost.core.checkpoint_location import checkpoint_location
from milepost.errors import OffsetsExpired, SparkDriverError
from milepost.spark.file_manager import file_manager
from tests.docs.blocks import ROOT, blocks_of
from tests.spark.clusters.setup import COPY, DISTINCT, Setup
from tests.spark.trials.queries import PROVIDERS
from tests.spark.under_test.hooks import wait_for
from tests.spark.under_test.program import Events, log_to_standard_error, spark_session
from tests.wire.support.api import connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STANDSTILL_SECONDS = 300.0
_WAIT_SECONDS = 200.0
_KAFKA_SECONDS = 15.0


def main(setup: Setup) -> int:
    """Lead until the query ends, by itself or by an error, which is told."""
    from pyspark.errors import StreamingQueryException

    tell = Events(setup.events)
    settings = {
        "spark.master": setup.master,
        "spark.jars": setup.jars,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.extraJavaOptions": setup.java_options,
    }
    spark = spark_session(setup.java_options, settings | PROVIDERS[setup.provider] | setup.spark)
    spark.sparkContext.setLogLevel("INFO")
    try:
        tell("standing by", app=spark.sparkContext.applicationId, ui=spark.sparkContext.uiWebUrl)
        with milepost.Client(setup.url) as client, client.session("driver", ttl=setup.ttl) as session:
            epoch = session.store(setup.store).campaign(_WAIT_SECONDS).epoch
            location = checkpoint_location([setup.url], setup.store, epoch)
            for name, value in {**location.settings, **file_manager(spark)}.items():
                spark.conf.set(name, value)
            tell("leading", epoch=epoch)
            try:
                source = _checked(spark, setup, location.url)
            except OffsetsExpired as error:
                tell("expired", detail=str(error), lost=[list(lost) for lost in error.lost])
                return 0
            except SparkDriverError as error:
                tell("refused", detail=str(error))
                return 0
            query = _start(spark, setup, location.url, source, tell)
            tell("started")
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                tell("failed", detail=str(error))
                return 0
            tell("finished", tasks=_tasks(spark))
            return 0
    finally:
        tell("left")
        spark.stop()


def _checked(spark: SparkSession, setup: Setup, checkpoint: str) -> dict[str, str]:
    """The options of the source, checked by the lines of docs/clusters.md, which also make a writer of them."""
    (text,) = (block.text for block in blocks_of(ROOT / "docs" / "clusters.md") if block.language == "python")
    for old, new in (
        ("127.0.0.1:9092", setup.kafka),
        ('"flights"', repr(setup.topic)),
        ("webhdfs://milepost/jobs/flights/checkpoint", checkpoint),
        (", source)", f", source, timeout={_KAFKA_SECONDS})"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    given: dict[str, Any] = {"spark": spark}
    exec(compile(text, "docs/clusters.md", "exec"), given)
    assert type(given["query"]).__name__ == "DataStreamWriter"
    source: dict[str, str] = given["source"]
    return source


def _start(spark: SparkSession, setup: Setup, checkpoint: str, source: dict[str, str], tell: Events) -> StreamingQuery:
    stream = spark.readStream.format("kafka").options(**source).option("startingOffsets", "earliest")
    rows = stream.option("maxOffsetsPerTrigger", setup.per_batch).load()
    if setup.query == COPY:
        frame = rows.selectExpr("key", _slowly("CAST(value AS STRING)", setup.slow))
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", setup.kafka)
        writer = writer.option("topic", setup.target).option("kafka.linger.ms", "0")
    else:
        frame = _stateful(rows, setup)
        mode = "append" if setup.query == DISTINCT else "update"
        writer = frame.writeStream.outputMode(mode).foreachBatch(_telling(setup, tell))
    writer = writer.option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if setup.available_now else writer).start()


def _stateful(rows: DataFrame, setup: Setup) -> DataFrame:
    """Keys, totals and counts. With `DISTINCT`, tasks are slow while they have their state open.

    An aggregation takes in all rows before it opens its state, and gives none out before it has committed it.
    """
    numbers = rows.selectExpr("CAST(key AS STRING) AS k", "CAST(CAST(value AS STRING) AS LONG) AS v")
    if setup.query != DISTINCT:
        totals = numbers.groupBy("k").agg({"v": "sum", "*": "count"}).toDF("k", "w", "n")
        return totals.selectExpr("k", _slowly("w", setup.slow, "w"), "n")
    return numbers.dropDuplicates(["k", "v"]).selectExpr("k", _slowly("v", setup.slow, "w"), "1 AS n")


def _slowly(expression: str, milliseconds: int, name: str = "value") -> str:
    """The expression, whose evaluation takes so long for each row, wherever its task runs."""
    if not milliseconds:
        return f"{expression} AS {name}"
    # Nobody knows what it returns before it has been called, so it cannot be left out.
    slept = f"java_method('java.lang.Thread', 'sleep', {milliseconds}L)"
    return f"CASE WHEN {slept} = 'never' THEN NULL ELSE {expression} END AS {name}"


def _telling(setup: Setup, tell: Events) -> Callable[[DataFrame, int], None]:
    def publish(frame: DataFrame, batch: int) -> None:
        if setup.seen:
            tell("seen", batch=batch, by=_sight(frame, setup.seen))
        rows = [[row["k"], row["w"], row["n"]] for row in frame.collect()]
        if batch == setup.pause:
            tell("in batch", batch=batch)
            wait_for(setup.go, STANDSTILL_SECONDS)
        tell("batch", batch=batch, rows=rows)

    return publish


def _tasks(spark: SparkSession) -> dict[str, int]:
    """How many tasks each executor has done, by its number; none without Spark's own page."""
    page = spark.sparkContext.uiWebUrl
    if page is None:
        return {}
    with connect(page) as http:
        executors = http.get(f"/api/v1/applications/{spark.sparkContext.applicationId}/executors").json()
    return {each["id"]: each["completedTasks"] for each in executors if each["id"] != "driver"}


def _sight(frame: DataFrame, path: str) -> list[tuple[str, bool]]:
    """The directories of all executors, and whether they saw the file; each has several tasks."""

    def look(_: int) -> tuple[str, bool]:
        time.sleep(0.5)  # so that no executor does all tasks
        return os.getcwd(), Path(path).exists()

    return sorted(set(frame.sparkSession.sparkContext.parallelize(range(8), 8).map(look).collect()))


if __name__ == "__main__":
    log_to_standard_error()
    sys.exit(main(Setup.decode(sys.argv[1])))

"""The driver under test: jobs in PySpark, one for each sink, each led by `milepost.spark.lead`, all in one application.

It is started by ``python -m tests.spark.guarantees.program SETUP``.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import StreamingQueryException

import milepost.spark
from milepost.errors import MilepostError
from milepost.spark import BatchContext, Job
from milepost.spark.sinks.jdbc import JdbcTable
from tests.spark.guarantees.outputs import KEYS, held
from tests.spark.under_test import hooks
from tests.spark.under_test.program import Events, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_WAIT_SECONDS = 900.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Setup:
    """Jobs ``job``-SINK, which read and write in ``directory``, and write into ``tree`` and the topic ``target``.

    The sink ``jdbc`` writes into a table of ``database``.

    With ``source`` they read that topic instead, in real-time mode, until they are stopped.
    """

    url: str
    job: str
    sinks: tuple[str, ...]
    directory: str
    tree: str
    kafka: str
    target: str
    events: str
    java_options: str
    jars: str
    go: str
    on: str = ""
    ttl: float = 24.0
    source: str = ""
    database: str = ""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Setup:
        return cls(**json.loads(text))


def main(setup: Setup) -> int:
    """Lead all jobs, and tell how each query ends."""
    hooks.blind()  # so that after a standstill nothing but the fence and the sinks stops it
    tell = Events(setup.events)
    spark = spark_session(setup.java_options, {"spark.master": "local[8]", "spark.jars": setup.jars})
    tell("standing by")
    with ExitStack() as stack:
        queries = {}
        for sink in setup.sinks:
            led = milepost.spark.lead(spark, setup.url, f"{setup.job}-{sink}", ttl=setup.ttl, wait=_WAIT_SECONDS)
            job = stack.enter_context(led)
            queries[sink] = job, start(setup, sink, rows(spark, setup, sink), job)
        tell("started")
        running = {sink: query for sink, (_, query) in queries.items()}
        Thread(target=_tell_of_those_that_stop, args=(running, tell), daemon=True).start()
        for sink, (job, query) in queries.items():
            tell("query ended", sink=sink, how=_end(job, query))
        tell("finished")
    spark.stop()
    return 0


def _tell_of_those_that_stop(running: dict[str, StreamingQuery], tell: Events) -> None:
    """Tell of each query at once that it runs no more: its end is told only after that of those before it."""
    while running:
        for sink, query in list(running.items()):
            if not query.isActive:
                tell("query stopped", sink=sink, why=str(query.exception())[:2000])
                del running[sink]
        time.sleep(_LOOK_SECONDS)


def rows(spark: SparkSession, setup: Setup, sink: str) -> DataFrame:
    """The stream of values, in which a task can stand still."""
    if setup.source:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", setup.kafka)
        reader = reader.option("subscribe", setup.source).option("startingOffsets", "earliest")
        values = reader.load().selectExpr("CAST(CAST(value AS STRING) AS LONG) AS v")
    else:
        values = spark.readStream.schema("v LONG").option("maxFilesPerTrigger", 1).json(f"{setup.directory}/in")
    return values.selectExpr(f"{held(setup.directory, sink)} AS v")


def start(setup: Setup, sink: str, frame: DataFrame, job: Job) -> StreamingQuery:
    """Start the query of this sink."""
    writer = led_into(frame, sink, setup, job).option("checkpointLocation", job.checkpointLocation)
    return (in_real_time(writer) if setup.source else writer.trigger(availableNow=True)).start()


def in_real_time(writer: DataStreamWriter) -> DataStreamWriter:
    """The writer with the trigger of real-time mode."""
    trigger: Any = writer.outputMode("update").trigger  # Spark's own types do not know it yet
    return cast("DataStreamWriter", trigger(realTime="5 seconds"))


def into(frame: DataFrame, sink: str, setup: Setup) -> DataStreamWriter:
    """A writer for a sink of Spark's own; ``sums`` has state, and goes to a topic of its own."""
    if sink in ("kafka", "sums"):
        texts = frame.selectExpr("CAST(v AS STRING) AS key", "CAST(v AS STRING) AS value")
        if sink == "sums":
            sums = frame.groupBy((frame.v % KEYS).alias("k")).agg({"*": "count", "v": "sum"})
            texts = sums.selectExpr("CAST(k AS STRING) AS key", "concat(`count(1)`, ' ', `sum(v)`) AS value")
        writer = texts.writeStream.format("kafka").option("kafka.bootstrap.servers", setup.kafka)
        return writer.option("topic", setup.target + ("-sums" if sink == "sums" else ""))
    if sink in ("parquet", "tree"):
        path = setup.tree if sink == "tree" else f"{setup.directory}/parquet"
        return frame.writeStream.format("parquet").option("path", path)
    return frame.writeStream.foreach(appending(f"{setup.directory}/foreach"))


def led_into(frame: DataFrame, sink: str, setup: Setup, job: Job) -> DataStreamWriter:
    """A writer for this sink: one of the job's own, or one of Spark's."""
    if sink == "files":
        return frame.writeStream.foreachBatch(job.files(f"{setup.directory}/files"))
    if sink == "once":
        return frame.writeStream.foreachBatch(job.exactlyOnce(inserting(f"{setup.directory}/once")))
    if sink == "jdbc":
        return frame.writeStream.foreachBatch(job.exactlyOnce(JdbcTable(setup.database, "numbers")))
    return into(frame, sink, setup)


def appending(path: str) -> Callable[[Row], None]:
    """A function for ``foreach``."""

    def append(row: Row) -> None:
        with open(path, "a") as file:
            file.write(f"{row.v}\n")

    return append


def inserting(path: str) -> Callable[[DataFrame, BatchContext], Any]:
    """A function for `Job.exactlyOnce` that compares the number of the batch in the transaction of its rows."""

    def insert(frame: DataFrame, context: BatchContext) -> None:
        values = [(row.v,) for row in frame.collect()]
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("BEGIN IMMEDIATE")
        database.execute("CREATE TABLE IF NOT EXISTS batches (batch)")
        database.execute("CREATE TABLE IF NOT EXISTS numbers (v)")
        (newest,) = database.execute("SELECT coalesce(max(batch), -1) FROM batches").fetchone()
        if newest < context.batchId:
            database.executemany("INSERT INTO numbers VALUES (?)", values)
            database.execute("INSERT INTO batches VALUES (?)", (context.batchId,))
        database.execute("COMMIT")
        database.close()

    return insert


def _end(job: Job, query: StreamingQuery) -> str:
    try:
        job.awaitTermination(query)
    except (MilepostError, StreamingQueryException) as error:
        return f"{type(error).__name__}: {error}"
    return "well"


if __name__ == "__main__":
    Path(Setup.decode(sys.argv[1]).directory).mkdir(exist_ok=True)
    sys.exit(main(Setup.decode(sys.argv[1])))

"""The streaming job of these tests as the program of a driver's Pod: beside what a user writes, it tells of itself.

It runs in the Pod, where nothing else of the tests is. It never ends by itself. Its variables are ``JOB``, its name;
``SLOW``: so many milliseconds does each row take while the first epoch lasts; and ``HALT``: in this batch the first
epoch stands still.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import milepost.spark
from milepost.errors import MilepostError
from milepost.spark import BatchContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 40
KEYS = 12
TASKS = 2
"""How many tasks have state; no other stage of a batch has as many."""

_FILE = "/tmp/of-the-driver"
_TTL = 15.0
_HALT_SECONDS = 600.0
_WORKING_SECONDS = 2.0


def main() -> None:
    """Lead the job until something ends it, which is told."""
    from pyspark.sql import SparkSession

    Path(_FILE).write_text("for its eyes alone")
    name = os.environ["JOB"]
    spark = SparkSession.builder.appName("flights").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    tell("standing by", app=spark.sparkContext.applicationId)
    url, token = os.environ["MILEPOST_URL"], os.environ["MILEPOST_TOKEN"]
    try:
        with milepost.spark.lead(spark, url, name, holder=os.environ["POD_NAME"], ttl=_TTL, token=token) as job:
            tell("leading", epoch=job.epoch)
            if job.epoch == 1:
                tell("seen", by=sights(spark))
            slow = int(os.environ.get("SLOW", "0")) if job.epoch == 1 else 0
            writer = distinct(spark, slow).writeStream.option("checkpointLocation", job.checkpointLocation)
            query = writer.foreachBatch(job.exactlyOnce(publish)).start()
            working = Working(spark)
            while not job.awaitTermination(query, 1):
                working.look()
    except MilepostError as error:
        tell("ended", error=type(error).__name__, detail=str(error))


def distinct(spark: SparkSession, slow: int) -> DataFrame:
    """Numbers, of which each batch also reads all of the batch before; a row comes out once, if the state is right.

    Its tasks are slow while they have their state open.
    """
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=ROWS, numPartitions=1)
    numbers = source.load().selectExpr(f"explode(array(value, greatest(value - {ROWS}, 0))) AS v")
    slept = f"java_method('java.lang.Thread', 'sleep', {slow}L)"  # nobody knows its value before it was called
    value = f"CASE WHEN {slept} = 'never' THEN NULL ELSE v END AS v" if slow else "v"
    return numbers.dropDuplicates(["v"]).selectExpr(f"concat('k', v % {KEYS}) AS k", value)


def publish(frame: DataFrame, context: BatchContext) -> None:
    """Tell of a batch; stand still with it in place of that, where the test says so."""
    rows = sorted([row["k"], row["v"]] for row in frame.collect())
    if context.epoch == 1 and context.batchId == int(os.environ.get("HALT", "-1")):
        tell("halted", batch=context.batchId)
        time.sleep(_HALT_SECONDS)
    tell("batch", batch=context.batchId, epoch=context.epoch, rows=rows)


def sights(spark: SparkSession) -> Sequence[tuple[str, bool]]:
    """The names of the Pods in which tasks ran, and whether they saw the driver's file."""
    path = _FILE

    def look(_: int) -> tuple[str, bool]:
        time.sleep(0.5)  # so that no executor does all tasks
        return os.uname().nodename, os.path.exists(path)

    return sorted(set(spark.sparkContext.parallelize(range(8), 8).map(look).collect()))


class Working:
    """Tells when all tasks of a stage with state have been at work for a while."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._since: dict[int, float] = {}
        self._told: set[int] = set()

    def look(self) -> None:
        """Tell of each stage once."""
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info is None or not info.numTasks == info.numActiveTasks == TASKS:
                continue
            since = self._since.setdefault(stage, time.monotonic())
            if stage not in self._told and time.monotonic() - since > _WORKING_SECONDS:
                self._told.add(stage)
                tell("working", stage=stage)


def tell(event: str, **details: Any) -> None:
    """One line of JSON in the log of the Pod."""
    print(json.dumps({"event": event, **details}), flush=True)


if __name__ == "__main__":
    main()

"""The driver under test leads a job with a real Spark, and tells of it.

It is started by ``python -m tests.spark.under_test.program SETUP``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

import milepost.spark
from milepost.errors import MilepostError
from tests.spark.trials.queries import PROVIDERS, read_input
from tests.spark.trials.reading import slowly
from tests.spark.trials.stateful import QUERIES
from tests.spark.under_test import hooks
from tests.spark.under_test.settings import Setup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STANDSTILL_SECONDS = 300.0


def spark_session(java_options: str, settings: dict[str, str]) -> SparkSession:
    """A small Spark that starts quickly and whose maintenance runs all the time."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("milepost-test")
    for key, value in {
        "spark.driver.extraJavaOptions": java_options,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.streaming.minBatchesToRetain": "3",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
        "spark.driver.memory": "1g",
        **settings,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Events:
    """One JSON line per event, for the test to follow."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._began = time.monotonic()

    def __call__(self, event: str, **details: Any) -> None:
        with open(self._path, "a") as file:
            file.write(
                json.dumps({"event": event, "after": round(time.monotonic() - self._began, 2), **details}) + "\n"
            )


def main(setup: Setup) -> int:
    """Lead the job until its input is used up, or something ends it; 0 for an end that `milepost` has a name for."""
    tell = Events(setup.events)
    passed = published = 0

    def passing(point: str, batch: int) -> None:
        nonlocal passed, published
        if point == "before batch" and published == setup.most > 0:
            hooks.wait_for(setup.on, STANDSTILL_SECONDS)
        if point == "after publication":
            tell("published", batch=batch)
            published += 1
        if point == "before writing":
            time.sleep(setup.throttle)
        if point == setup.pause:
            passed += 1
            if passed == setup.pause_at:
                tell("paused", point=point, batch=batch)
                hooks.wait_for(setup.go, STANDSTILL_SECONDS)

    hooks.install(passing)
    hooks.stuck(setup.stuck)
    if setup.blind:
        hooks.blind()
    kind = QUERIES[setup.kind]
    spark = spark_session(
        setup.java_options, PROVIDERS[setup.provider] | setup.spark | {"spark.local.dir": setup.scratch}
    )
    tell("standing by", application=spark.sparkContext.applicationId)
    with (
        told_to_the_end(spark, tell),
        milepost.spark.lead(
            spark,
            setup.urls or setup.url,
            setup.store,
            ttl=setup.ttl,
            jvm_timeout=setup.jvm_timeout,
            batch_timeout=setup.batch_timeout,
            grace=setup.grace,
        ) as job,
    ):
        resumes_at, entries = job.recovery.resumes_at, job.recovery.entries
        tell("leading", epoch=job.epoch, resumes_at=resumes_at, published=job.published, entries=entries)
        frame = setup.reading.frame(spark) if setup.reading else read_input(spark, setup.input)
        rows = kind.build(frame).selectExpr("k", slowly("w", setup.slow))
        writer = rows.writeStream.outputMode(kind.mode)
        writer = writer.option("checkpointLocation", job.checkpointLocation).foreachBatch(job.files(setup.output))
        query = (writer.trigger(availableNow=True) if setup.available_now else writer).start()
        tell("started")
        job.awaitTermination(query)
        tell("finished", published=job.published, stopped=job.stopped)
    return 0


@contextmanager
def told_to_the_end(spark: SparkSession, tell: Events) -> Iterator[None]:
    """Tell of an end that `milepost` has a name for, and that the driver leaves; then stop Spark."""
    try:
        yield
    except MilepostError as error:
        tell("ended", error=type(error).__name__, detail=str(error))
    finally:
        tell("left")
        with suppress(Py4JError, ConnectionError):  # there may be no JVM any more
            spark.stop()


def log_to_standard_error() -> None:
    """Let a driver under test log what Milepost says, and of its libraries no more than warnings."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    for noisy in ("py4j", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


if __name__ == "__main__":
    log_to_standard_error()
    sys.exit(main(Setup.decode(sys.argv[1])))

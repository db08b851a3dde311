"""One query for each place, over input that is the same for all, and how long its batches took."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.locations.cases import SCHEMA, Case
from benchmarks.locations.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_BATCH_SECONDS = 300.0
_MEMORY = "3g"
MAINTENANCE_SECONDS = 10
"""How often Spark looks for snapshots of state that it can put into the checkpoint; by default every minute."""


def spark_session(places: Mapping[str, Place]) -> SparkSession:
    """A Spark as a user would start it on one machine, with what each place needs, and with less to say."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("milepost-benchmark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": _MEMORY,
        # Queries that have nothing to do look for input five times a second, not a hundred times.
        "spark.sql.streaming.pollingDelay": "200ms",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.stateStore.maintenanceInterval": f"{MAINTENANCE_SECONDS}s",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    for place in places.values():
        for key, value in place.settings.items():
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@dataclass
class Contender:
    """A query with its own input; ``took`` are its batches in milliseconds, as Spark measures them."""

    place: Place
    input: Path
    query: StreamingQuery
    took: list[int] = field(default_factory=list)

    def run(self, content: str, number: int) -> int:
        """Give it a file, wait for the batch, and return how long that took in milliseconds."""
        give(self.input, content, number)
        return self.wait(number)

    def wait(self, number: int) -> int:
        """Wait for a batch, and return how long it took in milliseconds."""
        until = time.monotonic() + _BATCH_SECONDS
        while True:
            for told in self.query.recentProgress:
                if told["numInputRows"] and told["batchId"] == number:
                    return int(told["durationMs"]["triggerExecution"])
            if not self.query.isActive or time.monotonic() > until:
                raise SystemExit(f"batch {number} of {self.input} did not come about: {self.query.exception()}")
            time.sleep(0.01)

    def counted(self, content: str, number: int) -> Counter[str]:
        """Do the same as `run`, and return what the place's servers counted meanwhile."""
        before = self.place.counted()
        self.run(content, number)
        return Counter({key: count - before[key] for key, count in self.place.counted().items()})


def give(directory: Path, content: str, number: int) -> None:
    """Put a file of input into a directory, whole."""
    hidden = directory / f".{number}"
    hidden.write_text(content)
    hidden.rename(directory / f"{number:06}.json")


def start(spark: SparkSession, case: Case, inputs: Path, checkpoint: str) -> StreamingQuery:
    """Start a case's query with its checkpoint at this location. It puts nothing out, so that this is all it writes."""
    inputs.mkdir(parents=True, exist_ok=True)
    for key, value in {"spark.sql.shuffle.partitions": str(case.partitions), **case.settings}.items():
        spark.conf.set(key, value)
    try:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(inputs))
        writer = case.build(stream).writeStream.format("noop").outputMode(case.mode)
        return writer.option("checkpointLocation", checkpoint).start()
    finally:
        for key in case.settings:
            spark.conf.unset(key)

"""What a batch of a real query costs the servers: an aggregation over RocksDB with its changelog, in one Spark."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.locations.places import Milepost
from benchmarks.rest import processor_seconds
from milepost.jvm import FILE_MANAGER
from testbed.server import ServerProcess
from tests.spark.trials.queries import PROVIDERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STREAMING = "org.apache.spark.sql.execution.streaming"
WAYS = {
    "by Hadoop's client": f"{_STREAMING}.checkpointing.FileContextBasedCheckpointFileManager",
    "in one request": None,
}
"""How checkpoint files are written: Spark's setting for the class that does it, None for Milepost's."""

_WARMING = 3
_BATCH_SECONDS = 120.0


@dataclass(frozen=True)
class Batches:
    """What one batch cost on average: processor milliseconds of each server, the leader first; requests and commits."""

    milliseconds: tuple[float, ...]
    requests: float
    commits: float


def spark_session() -> SparkSession:
    """Start the Spark that runs all queries."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("milepost-benchmark").config("spark.ui.enabled", "false")
    for key, value in PROVIDERS["rocksdb-changelog"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measured(
    spark: SparkSession, servers: Sequence[ServerProcess], partitions: int, batches: int, way: str = "in one request"
) -> Batches:
    """Run a query whose state has ``partitions`` partitions, and return what each of its next ``batches`` batches cost
    ``servers``. The first server leads. ``way`` is one of `WAYS`.
    """
    from pyspark.sql import functions as f

    if (manager := WAYS[way]) is None:
        spark.conf.unset(FILE_MANAGER)
    else:
        spark.conf.set(FILE_MANAGER, manager)
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    deployment = Milepost("capacity", servers)
    with deployment.checkpoint(spark, f"{partitions}-{time.time_ns()}") as checkpoint:
        rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4000).option("numPartitions", 2)
        sums = rates.load().groupBy((f.col("value") % 1000).alias("k")).count().writeStream.outputMode("update")
        query = sums.format("noop").option("checkpointLocation", checkpoint).start()
        _until(query, _WARMING)
        first, before, began = _batch(query), deployment.counted(), [processor_seconds(each.pid) for each in servers]
        _until(query, first + batches)
        last, after, ended = _batch(query), deployment.counted(), [processor_seconds(each.pid) for each in servers]
        query.stop()
    number = last - first
    costs = tuple(1000 * (end - begin) / number for begin, end in zip(began, ended, strict=True))
    counted = after - before
    commits = counted.pop("commits", 0)
    return Batches(costs, counted.total() / number, commits / number)


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _until(query: StreamingQuery, batch: int) -> None:
    """Wait for a batch. Raises SystemExit if it does not come about."""
    reached, until = _batch(query), time.monotonic() + _BATCH_SECONDS
    while reached < batch:
        time.sleep(0.1)
        if (now := _batch(query)) > reached:
            reached, until = now, time.monotonic() + _BATCH_SECONDS
        if not query.isActive or time.monotonic() > until:
            raise SystemExit(f"batch {batch} did not come about: {query.exception()}")

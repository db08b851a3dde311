"""What a batch of a real query costs the servers: an aggregation over RocksDB with its changelog, in one Spark."""

from __future__ import annotations

import os
import re
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import milepost.spark
from benchmarks.rest import processor_seconds
from testbed.server import ServerProcess
from tests.spark.trials.queries import PROVIDERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_REQUESTS = re.compile(rb"^milepost_requests_total\{.*\} ([0-9.e+]+)", re.MULTILINE)
_COMMITS = re.compile(rb"^milepost_groups_committed ([0-9.e+]+)", re.MULTILINE)
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


def measured(spark: SparkSession, servers: Sequence[ServerProcess], partitions: int, batches: int) -> Batches:
    """Run a query with so many partitions, and return what its batches cost ``servers``, of which the first leads."""
    from pyspark.sql import functions as f

    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    urls = [server.url for server in servers]
    with milepost.spark.lead(spark, urls, f"batches-{partitions}-{time.time_ns()}", ttl=60) as job:
        rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4000).option("numPartitions", 2)
        sums = rates.load().groupBy((f.col("value") % 1000).alias("k")).count().writeStream.outputMode("update")
        query = sums.format("noop").option("checkpointLocation", job.checkpointLocation).start()
        _until(query, _WARMING)
        first, before, began = _batch(query), _counted(servers), [processor_seconds(each.pid) for each in servers]
        _until(query, first + batches)
        last, after, ended = _batch(query), _counted(servers), [processor_seconds(each.pid) for each in servers]
        query.stop()
    number = last - first
    costs = tuple(1000 * (end - begin) / number for begin, end in zip(began, ended, strict=True))
    return Batches(costs, (after[0] - before[0]) / number, (after[1] - before[1]) / number)


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


def _counted(servers: Sequence[ServerProcess]) -> tuple[float, float]:
    """Return how many requests the servers have answered, and how many groups they have committed."""
    requests = commits = 0.0
    for server in servers:
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
            text = answer.read()
        requests += sum(map(float, _REQUESTS.findall(text)))
        commits += sum(map(float, _COMMITS.findall(text)))
    return requests, commits

"""What `job.files` and `job.exactlyOnce` add to a micro-batch, against the same query in plain Spark.

    python -m benchmarks.spark_batches [--rounds 60] [--keys 0] [--rows 2000] [--warming 15] [--provider hdfs]
                                       [--only files]

All queries run in one Spark and publish the same rows as Parquet files on a local disk. In each round every query gets
the same new file of input, one query after the other and in another order each time, so that what slows the machine
down slows all of them. Told is the time of whole batches as Spark measures it (``triggerExecution``), and the
differences within a round. ``--keys`` makes it an aggregation with so many keys of state; 0 is without state.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import milepost.spark
from milepost.spark import BatchContext
from testbed.server import ServerProcess
from tests.spark.trials.queries import PROVIDERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PLAIN = "plain"
OURS = ["files", "exactlyOnce"]
_BATCH_SECONDS = 120.0


@dataclass
class Contender:
    """One query with its own input, and how long each of its batches took, in milliseconds."""

    name: str
    input: Path
    query: StreamingQuery
    took: list[int] = field(default_factory=list)

    def run(self, content: str, number: int) -> None:
        """Give it a file, and wait for the batch."""
        hidden = self.input / f".{number}"
        hidden.write_text(content)
        hidden.rename(self.input / f"{number:06}.json")
        until = time.monotonic() + _BATCH_SECONDS
        while True:
            done = [told for told in self.query.recentProgress if told["numInputRows"] and told["batchId"] == number]
            if done:
                self.took.append(int(done[0]["durationMs"]["triggerExecution"]))
                return
            if not self.query.isActive or time.monotonic() > until:
                raise SystemExit(f"{self.name}: batch {number} did not come about: {self.query.exception()}")
            time.sleep(0.01)


def spark_session(provider: str) -> SparkSession:
    """A Spark as a user would start it on one machine, with less to say."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("milepost-benchmark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        "spark.sql.streaming.pollingDelay": "200ms",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        **PROVIDERS[provider],
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def input_of(number: int, rows: int, keys: int) -> str:
    """One file's lines. The first one of an aggregation brings every key."""
    source = random.Random(number)
    chosen = range(keys) if keys and number == 0 else [source.randrange(keys or 1_000_000) for _ in range(rows)]
    return "".join(f'{{"k":{key},"v":{source.randrange(1000)}}}\n' for key in chosen)


def start(
    spark: SparkSession, name: str, directory: Path, keys: int, checkpoint: str, function: Callable[..., None]
) -> Contender:
    """The query under test, over an input directory of its own."""
    inputs = directory / f"in-{name}"
    inputs.mkdir()
    stream = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).json(str(inputs))
    frame = stream.groupBy("k").sum("v") if keys else stream.where("v % 3 != 0").selectExpr("k", "v * 2 AS w")
    writer = frame.writeStream.outputMode("update" if keys else "append").option("checkpointLocation", checkpoint)
    return Contender(name, inputs, writer.foreachBatch(function).start())


def contenders(
    spark: SparkSession, url: str, directory: Path, keys: int, chosen: list[str], stack: ExitStack
) -> list[Contender]:
    """Plain Spark, `job.files`, and `job.exactlyOnce` with a function that writes what the others do."""

    def plain(frame: DataFrame, batch: int) -> None:
        frame.write.parquet(f"{directory}/out-plain/batch={batch}")

    def publish(frame: DataFrame, context: BatchContext) -> Any:
        staging = context.staging(f"{directory}/out-exactlyOnce")
        frame.write.parquet(staging)
        return {"path": staging}

    running = [start(spark, PLAIN, directory, keys, f"{directory}/plain", plain)]
    for name in chosen:
        store = f"bench-{name}-{uuid.uuid4().hex[:8]}"
        job = stack.enter_context(milepost.spark.lead(spark, url, store, ttl=60.0))
        function = job.files(f"{directory}/out-files") if name == "files" else job.exactlyOnce(publish)
        running.append(start(spark, name, directory, keys, job.checkpointLocation, function))
    return running


def told(running: list[Contender], warming: int) -> dict[str, Any]:
    """Medians, and of each query the differences to plain Spark within the rounds."""
    base = running[0].took[warming:]
    report: dict[str, Any] = {"rounds": len(base), f"{PLAIN} p50 ms": statistics.median(base)}
    for contender in running[1:]:
        took = contender.took[warming:]
        added = sorted(mine - plain for mine, plain in zip(took, base, strict=True))
        report[contender.name] = {
            "p50 ms": statistics.median(took),
            "added p50 ms": statistics.median(added),
            "added p25 to p75 ms": [added[len(added) // 4], added[3 * len(added) // 4]],
            "ratio p50": round(statistics.median(mine / plain for mine, plain in zip(took, base, strict=True)), 3),
        }
    return report


def main() -> None:
    """Run it and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--warming", type=int, default=15, help="rounds before those that count")
    parser.add_argument("--keys", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--only", choices=OURS, action="append")
    parser.add_argument("--provider", choices=sorted(PROVIDERS), default="hdfs")
    options = parser.parse_args()
    order = random.Random(1)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        (directory / "service").mkdir()
        server = stack.enter_context(ServerProcess(directory / "service", "--log-level", "warning")).start()
        spark = spark_session(options.provider)
        stack.callback(spark.stop)
        running = contenders(spark, server.url, directory, options.keys, options.only or OURS, stack)
        for number in range(options.warming + options.rounds):
            content = input_of(number, options.rows, options.keys)
            for contender in order.sample(running, len(running)):
                contender.run(content, number)
        print(json.dumps({"keys": options.keys, "provider": options.provider, **told(running, options.warming)}))


if __name__ == "__main__":
    main()

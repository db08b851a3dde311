"""A program for any PySpark that is supported: it writes state with a job that it leads, or reads that of one.

``python program.py write|read URL JOB DIRECTORY PROVIDER`` prints what it found as JSON. It imports nothing of the
tests, so that it runs where only PySpark and the SDK are installed. Names have letters outside ASCII.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import milepost
import milepost.spark
from milepost.core.checkpoint_location import checkpoint_location

QUERIES = ("zähler", "prüfung")


class Count(StatefulProcessor):
    """Counts the rows of each town."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        del timerValues
        before = self._count.get()
        count = sum(len(frame) for frame in rows) + (before[0] if before is not None else 0)
        self._count.update((count,))
        yield pd.DataFrame({"town": [key[0]], "count": [count]})

    def close(self) -> None:
        """Nothing is open."""


def write(spark: SparkSession, url: str, job_name: str, directory: Path) -> dict[str, Any]:
    """Run both queries over what is there, and pin what they kept."""
    (directory / "in").mkdir()
    towns = ["Zürich", "東京", "Oslo"]
    for number in range(3):
        lines = [json.dumps({"town": town}, ensure_ascii=False) for town in towns[: number + 1]]
        (directory / "in" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
    with milepost.spark.lead(spark, url, job_name) as job:
        frame = spark.readStream.schema("town string").option("maxFilesPerTrigger", 1).json(str(directory / "in"))
        counted = frame.groupBy("town").count()
        processed = frame.groupBy("town").transformWithStateInPandas(
            Count(), "town string, count bigint", "update", "none"
        )
        for name, result in zip(QUERIES, (counted, processed), strict=True):
            location = f"{job.checkpointLocation}/{name}"
            writer = result.writeStream.outputMode("update").format("noop").queryName(f"Umsätze {name}")
            writer.option("checkpointLocation", location).trigger(availableNow=True).start().awaitTermination()
        output = f"{job.checkpointLocation.rpartition('/')[0]}/größe"
        rows = spark.read.schema("town string").json(str(directory / "in")).withColumn("n", functions.lit(1))
        rows.write.partitionBy("town").parquet(output)
        towns_of = sorted(row["town"] for row in spark.read.parquet(output).select("town").distinct().collect())
    with milepost.Client(url) as client, client.session(holder="an operator") as session:
        session.store(job_name).files.make_savepoint("kept")
    return {"towns": towns_of}


def read(spark: SparkSession, url: str, job_name: str) -> dict[str, Any]:
    """Read the state of both queries, live and from the snapshot, as one who leads nothing."""
    root = checkpoint_location([url], job_name, 0).url
    snapshot = root.replace(f"/{job_name}/", f"/{job_name}/.snapshot/kept/")
    found: dict[str, Any] = {}
    for where, location in (("live", root), ("snapshot", snapshot)):
        reader = spark.read.format("statestore")
        found[f"{where} {QUERIES[0]}"] = _counts(reader.load(f"{location}/{QUERIES[0]}"), "key.town", "value.count")
        of_value = spark.read.format("statestore").option("stateVarName", "count").load(f"{location}/{QUERIES[1]}")
        found[f"{where} {QUERIES[1]}"] = _counts(of_value, "key.town", "value.count")
        metadata = spark.read.format("state-metadata").load(f"{location}/{QUERIES[0]}")
        found[f"{where} operators"] = [row["operatorName"] for row in metadata.collect()]
    return found


def _counts(frame: DataFrame, key: str, value: str) -> dict[str, int]:
    rows = frame.select(functions.col(key).alias("town"), functions.col(value).alias("counted")).collect()
    return {row["town"]: row["counted"] for row in rows}


def main() -> None:
    """Do what the arguments say."""
    what, url, job_name, directory, provider = sys.argv[1:]
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("versions")
    for key, setting in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.streaming.stateStore.providerClass": f"org.apache.spark.sql.execution.streaming.state.{provider}",
        # Those that only read say no epoch, as a notebook beside the job does.
        "spark.hadoop.fs.webhdfs.impl.disable.cache": "true",
    }.items():
        builder = builder.config(key, setting)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        done = write(spark, url, job_name, Path(directory)) if what == "write" else read(spark, url, job_name)
        print(json.dumps({"version": spark.version, **done}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

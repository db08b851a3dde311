"""Processing with managed state beside PySpark's own operator on RocksDB: ``python -m benchmarks.stateful``.

The same processor counts the same rows by key: the first batch has all keys, each other one some of them. Both write
their output as Parquet files. Spark's operator keeps its state in RocksDB with changelog checkpoints in a local
directory; Milepost's is in a local directory as well, and published by a service on this machine. The bytes are those
of new files of state, a batch.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import milepost.spark
from milepost.state.store import LocalFiles
from testbed.server import ServerProcess
from tests.spark.stateful.processors import COUNTED, Count
from tests.spark.under_test.program import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STORE = "spark.sql.streaming.stateStore"
SETTINGS = {
    f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STORE}.minDeltasForSnapshot": "10",
    f"{_STORE}.maintenanceInterval": "10s",
    "spark.sql.codegen.wholeStage": "true",
    "spark.driver.memory": "2g",
    "spark.sql.streaming.minBatchesToRetain": "100",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
DEADLINE_SECONDS = 1800


def write_input(spark: SparkSession, directory: Path, keys: int, touched: int, batches: int) -> None:
    """Write a file of all keys, and one of some keys for each batch that is measured."""
    source = random.Random("keys")
    for number in range(batches + 1):
        chosen = range(keys) if number == 0 else source.sample(range(keys), touched)
        frame = spark.createDataFrame([(f"key {key:08}",) for key in chosen], "word string")
        part = directory.with_name("part")
        frame.coalesce(1).write.mode("overwrite").parquet(str(part))
        (file,) = part.glob("*.parquet")
        directory.mkdir(exist_ok=True)
        file.rename(directory / f"{number:04}.parquet")
        time.sleep(0.01)  # the files are read in the order of their times


class Written:
    """The bytes of the files that came into a directory since it was last looked at."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: set[str] = set()

    def __call__(self) -> int:
        size = 0
        for path in self._directory.rglob("*"):
            if path.is_file() and not path.name.endswith(".crc") and str(path) not in self._known:
                self._known.add(str(path))
                size += path.stat().st_size
        return size


def theirs(spark: SparkSession, source: DataFrame, place: Path, partitions: int) -> Iterator[tuple[float, int]]:
    """Spark's operator: seconds and bytes of each batch."""
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    sizes: list[int] = []
    written = Written(place / "checkpoint" / "state")

    def publish(frame: DataFrame, batch: int) -> None:
        frame.write.parquet(str(place / "out" / str(batch)))
        sizes.append(written())

    counted = source.groupBy("word").transformWithStateInPandas(Count(), COUNTED, "Update", "None")
    writer = counted.writeStream.outputMode("update").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.foreachBatch(publish).trigger(availableNow=True).start()
    assert query.awaitTermination(DEADLINE_SECONDS)
    return zip(_seconds(query), sizes, strict=False)


def ours(spark: SparkSession, source: DataFrame, place: Path, partitions: int, url: str) -> Iterator[tuple[float, int]]:
    """Managed state: seconds and bytes of each batch."""
    sizes: list[int] = []
    written = Written(place / "state")
    files = LocalFiles(place / "state")
    with milepost.spark.lead(spark, url, f"bench-{place.name}", wait=60.0) as job:

        def transform(frame: DataFrame, _context: Any) -> DataFrame:
            counted = milepost.spark.stateful(
                job,
                frame,
                key="word",
                processor=Count(),
                output_type=COUNTED,
                files=files,
                partitions=partitions,
            )
            sizes.append(written())
            return counted

        function = job.files(str(place / "out"), transform=transform)
        writer = source.writeStream.option("checkpointLocation", job.checkpointLocation)
        query = writer.foreachBatch(function).trigger(availableNow=True).start()
        assert job.awaitTermination(query, DEADLINE_SECONDS)
        return zip(_seconds(query), sizes, strict=False)


def _seconds(query: Any) -> list[float]:
    return [progress["batchDuration"] / 1000 for progress in query.recentProgress if progress["numInputRows"]]


def main() -> None:
    """Run both, one after the other, as often as asked, and print the medians and their ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stateful")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--touched", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stateful-") as name, ServerProcess(Path(name) / "service") as server:
        server.start()
        spark = spark_session("", SETTINGS)
        directory = Path(name)
        write_input(spark, directory / "in", asked.keys, asked.touched, asked.batches)
        stream = spark.readStream.schema("word string").option("maxFilesPerTrigger", 1)
        source = stream.parquet(str(directory / "in"))
        found: dict[str, list[tuple[float, int]]] = {"theirs": [], "ours": []}
        for number in range(asked.rounds):
            for who in ("theirs", "ours") if number % 2 == 0 else ("ours", "theirs"):
                place = directory / f"{who}-{number}"
                if who == "theirs":
                    measured = theirs(spark, source, place, asked.partitions)
                else:
                    measured = ours(spark, source, place, asked.partitions, server.url)
                found[who] += list(measured)[2:]  # the batch with all keys, and one to warm up
                print(json.dumps({"round": number, "who": who, **_summary(found[who])}), flush=True)
        mine, other = _summary(found["ours"]), _summary(found["theirs"])
        rows = asked.touched
        for who, one in (("Spark's", other), ("Milepost's", mine)):
            print(f"{who}: {rows / one['seconds']:,.0f} rows/s, {one['bytes'] / 1e3:,.0f} kB a batch")
        print(
            f"throughput {other['seconds'] / mine['seconds']:.2f} of theirs, bytes {mine['bytes'] / other['bytes']:.2f}"
        )
        spark.stop()


def _summary(found: list[tuple[float, int]]) -> dict[str, float]:
    return {
        "batches": len(found),
        "seconds": statistics.median(seconds for seconds, _ in found),
        "bytes": statistics.fmean(size for _, size in found),
    }


if __name__ == "__main__":
    main()

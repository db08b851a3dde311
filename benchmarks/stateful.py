"""Processing with managed state beside PySpark's own operator on RocksDB, batch by batch.

    python -m benchmarks.stateful [--pairs 20] [--warming 3] [--keys 100000] [--touched 20000] [--partitions 4]
                                  [--snapshot-seconds 10]
    python -m benchmarks.stateful --large [--gibibytes 5] [--memory 96] [--batches 80] [--touching 10] [--cores 2]

Both queries run in one Spark, with the same processor, and count the same rows by key: the first batch has all keys,
each other one some of them. In each pair both get the same new file of input, in turn the one or the other first, so
that what slows the machine down slows both. Told is the time of whole batches as Spark measures it
(``triggerExecution``), as medians and as ratios within the pairs; and the time that all processes of the driver, its
workers and the service were on a processor, which is the same on a busy machine.

Both publish Parquet files. Spark's operator keeps its state in RocksDB with changelog checkpoints in a local directory;
Milepost's is in a local directory as well, and published by a service on this machine. The bytes are those of all files
of state that came into these directories, by their kind: what a batch changed, and what was written from that again.

``--large`` is about memory alone, and about managed state alone (`benchmarks.stateful_large`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import milepost.spark
from benchmarks.processes import ProcessorTime
from benchmarks.stateful_large import large
from milepost.state.store import LocalFiles
from testbed.server import ServerProcess
from tests.spark.stateful.processors import COUNTED, Count
from tests.spark.under_test.program import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STORE = "spark.sql.streaming.stateStore"
_BATCH_SECONDS = 1800.0
_START_SECONDS = 300.0
_CHANGES = (".changelog", ".delta")


def settings(partitions: int, snapshot_seconds: float) -> dict[str, str]:
    """Spark's settings: those of RocksDB that Spark's documentation advises, and the same retention for both."""
    return {
        f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{_STORE}.minDeltasForSnapshot": "10",
        f"{_STORE}.maintenanceInterval": f"{round(snapshot_seconds * 1000)}ms",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.driver.memory": "2g",
        "spark.sql.streaming.minBatchesToRetain": "100",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.pollingDelay": "100ms",
        "spark.python.authenticate.socketTimeout": "300s",
    }


def write_input(directory: Path, keys: int, touched: int, batches: int) -> list[Path]:
    """Write a file of all keys, and one of some keys for each other batch."""
    import pyarrow as pa
    from pyarrow import parquet

    source = random.Random("keys")
    files = []
    for number in range(batches):
        chosen = range(keys) if number == 0 else source.sample(range(keys), touched)
        files.append(directory / f"{number:06}.parquet")
        parquet.write_table(pa.table({"word": [f"key {key:08}" for key in chosen]}), files[-1])
    return files


class Written:
    """The bytes of all files that came into a directory, by the ends of their names."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sizes: dict[Path, int] = {}

    def look(self) -> Counter[str]:
        """Return the bytes so far. A file that was there at one look at least is counted."""
        for directory, _, names in os.walk(self._directory):
            for name in names:
                path = Path(directory, name)
                if not name.startswith(".") and path.suffix not in (".tmp", ".crc"):
                    self._sizes[path] = _size(path, self._sizes.get(path, 0))
        found: Counter[str] = Counter()
        for path, size in self._sizes.items():
            found["changes" if path.suffix in _CHANGES else "snapshots"] += size
        return found


def _size(path: Path, before: int) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # removed since it was listed
        return before


@dataclass
class Side:
    """One query with its own input, what its batches took in seconds, and the bytes of state after each of them."""

    name: str
    input: Path
    query: StreamingQuery
    written: Written
    clock: ProcessorTime
    took: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    sizes: list[Counter[str]] = field(default_factory=list)

    def run(self, file: Path, number: int) -> None:
        """Give it a file, and wait for the batch."""
        before = self.clock.seconds()
        os.link(file, self.input / f"{number:06}.parquet")
        until = time.monotonic() + _BATCH_SECONDS
        while True:
            done = [told for told in self.query.recentProgress if told["numInputRows"] and told["batchId"] == number]
            if done:
                self.took.append(done[0]["durationMs"]["triggerExecution"] / 1000)
                self.processor.append(self.clock.seconds() - before)
                self.sizes.append(self.written.look())
                return
            if not self.query.isActive or time.monotonic() > until:
                raise SystemExit(f"{self.name}: batch {number} did not come about: {self.query.exception()}")
            time.sleep(0.02)

    def bytes_of_batch(self, warming: int) -> dict[str, float]:
        """Return the bytes of state that a batch wrote, after the first ones."""
        first, last = self.sizes[warming - 1], self.sizes[-1]
        batches = len(self.sizes) - warming
        kinds = {kind: (last[kind] - first[kind]) / batches for kind in ("changes", "snapshots")}
        return {**kinds, "all": sum(kinds.values())}


def sides(spark: SparkSession, url: str, directory: Path, partitions: int, stack: ExitStack) -> tuple[Side, Side]:
    """Start both queries: Spark's operator, and managed state."""
    clock = ProcessorTime()
    inputs = [directory / "in-theirs", directory / "in-ours"]
    for one in inputs:
        one.mkdir()
    theirs, ours = (
        spark.readStream.schema("word string").option("maxFilesPerTrigger", 1).parquet(str(one)) for one in inputs
    )

    def publish(frame: DataFrame, batch: int) -> None:
        frame.write.parquet(f"{directory}/out-theirs/batch={batch}")

    counted = theirs.groupBy("word").transformWithStateInPandas(Count(), COUNTED, "Update", "None")
    writer = counted.writeStream.outputMode("update").option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.foreachBatch(publish).start()
    plain = Side("Spark's", inputs[0], query, Written(directory / "checkpoint" / "state"), clock)

    job = stack.enter_context(milepost.spark.lead(spark, url, "bench-stateful", ttl=60.0))
    files = LocalFiles(directory / "state")

    def transform(frame: DataFrame, _context: Any) -> DataFrame:
        return milepost.spark.stateful(
            job, frame, key="word", processor=Count(), output_type=COUNTED, files=files, partitions=partitions
        )

    function = job.files(f"{directory}/out-ours", transform=transform)
    query = ours.writeStream.option("checkpointLocation", job.checkpointLocation).foreachBatch(function).start()
    return plain, Side("Milepost's", inputs[1], query, Written(directory / "state"), clock)


def told(theirs: Side, ours: Side, warming: int, rows: int) -> dict[str, Any]:
    """Return what was measured: medians and 90th percentiles, and the ratios within the pairs."""
    report: dict[str, Any] = {"pairs": len(ours.took) - warming, "rows": rows}
    for side in (theirs, ours):
        took = side.took[warming:]
        report[side.name] = {
            "p50 s": round(statistics.median(took), 3),
            "p90 s": round(_p90(took), 3),
            "p50 s of the processor": round(statistics.median(side.processor[warming:]), 2),
            "rows/s": round(rows / statistics.median(took)),
            "bytes a batch": {kind: round(size) for kind, size in side.bytes_of_batch(warming).items()},
        }
    report["throughput to Spark's"] = _ratios(theirs.took[warming:], ours.took[warming:])
    report["the same by seconds of the processor"] = _ratios(theirs.processor[warming:], ours.processor[warming:])
    of_theirs, of_ours = theirs.bytes_of_batch(warming), ours.bytes_of_batch(warming)
    report["bytes to Spark's"] = {kind: round(of_ours[kind] / max(of_theirs[kind], 1), 3) for kind in of_ours}
    return report


def _ratios(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, float]:
    """Return how many times as long Spark's took within the pairs."""
    ratios = [plain / mine for plain, mine in zip(theirs, ours, strict=True)]
    return {
        "p50": round(statistics.median(ratios), 2),
        "p10": round(-_p90([-ratio for ratio in ratios]), 2),
        "least": round(min(ratios), 2),
    }


def _p90(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[-1]


def compare(asked: argparse.Namespace) -> None:
    """Run both in pairs, and print what was measured so far after each: the last line has all of them."""
    with tempfile.TemporaryDirectory(prefix="stateful-") as name, ExitStack() as stack:
        directory = Path(name)
        server = stack.enter_context(ServerProcess(directory / "service", "--log-level", "warning"))
        server.start(deadline=_START_SECONDS)
        spark = spark_session("", settings(asked.partitions, asked.snapshot_seconds))
        stack.callback(spark.stop)
        batches = asked.warming + asked.pairs
        (directory / "in").mkdir()
        inputs = write_input(directory / "in", asked.keys, asked.touched, batches)
        both = sides(spark, server.url, directory, asked.partitions, stack)
        for number, file in enumerate(inputs):
            for side in both if number % 2 == 0 else reversed(both):
                side.run(file, number)
            if number > asked.warming:
                print(json.dumps(told(*both, asked.warming, asked.touched)), flush=True)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--touched", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--warming", type=int, default=3, help="pairs before those that count")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--snapshot-seconds", type=float, default=10, help="between two runs of Spark's maintenance")
    parser.add_argument("--large", action="store_true", help="much more state than memory instead, with what follows")
    parser.add_argument("--gibibytes", type=float, default=5)
    parser.add_argument("--memory", type=int, default=96, help="MiB for the stores of each Python worker")
    parser.add_argument("--batches", type=int, default=80, help="batches that build the state")
    parser.add_argument("--touching", type=int, default=10, help="batches after these")
    parser.add_argument("--cores", type=int, default=2, help="as many Python workers")
    asked = parser.parse_args()
    (large if asked.large else compare)(asked)


if __name__ == "__main__":
    main()

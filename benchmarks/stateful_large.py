"""Managed state that is much larger than the memory it may take: ``python -m benchmarks.stateful --large``.

    python -m benchmarks.stateful --large [--gibibytes 5] [--memory 96] [--batches 80] [--touching 10] [--cores 2]

Builds that much state in batches of new keys, with random values that nothing makes smaller, and changes some keys all
over it in the last batches; each value that is read is checked. ``--memory`` is what each Python worker may take for
its stores, in MiB, and there are as many workers as cores. Told is the most memory that all Python workers ever had
together, as the kernel counts it (PSS, looked at five times a second), and the most that one of them had resident.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import milepost.spark
from benchmarks.processes import content, kibibytes, processes_below
from milepost.state.store import LocalFiles
from testbed.server import ServerProcess
from tests.spark.under_test.program import spark_session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

VALUE_BYTES = 8 * 1024
OUTPUT = "k long, times long"
_SAMPLE_SECONDS = 0.2
_START_SECONDS = 300.0
_BATCH_SECONDS = 3600


class Keep(StatefulProcessor):
    """Keeps a value of random bytes for each key, another one each time, and checks the one that was there."""

    def init(self, handle: Any) -> None:
        self._value = handle.getValueState("value", "times long, bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], _timerValues: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for _ in rows:
            pass
        before = self._value.get()
        times = before[0] if before else 0
        if before and before[1] != _value(key[0], times):
            raise ValueError(f"the value of the key {key[0]} is not what was kept")
        self._value.update((times + 1, _value(key[0], times + 1)))
        yield pd.DataFrame({"k": [key[0]], "times": [times + 1]})


def _value(key: int, times: int) -> bytes:
    return random.Random(key * 1000 + times).randbytes(VALUE_BYTES)


class WorkersMemory:
    """Watches the memory of the Python workers below this process, from a thread that ends with ``stop``."""

    def __init__(self) -> None:
        self.most_together = self.most_of_one = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-of-workers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._thread.join(10)

    def _watch(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            workers = [number for number in processes_below() if b"pyspark.daemon" in content(number, "cmdline")]
            together = sum(kibibytes(number, "smaps_rollup", "Pss") for number in workers)
            self.most_together = max(self.most_together, together)
            self.most_of_one = max(self.most_of_one, *(kibibytes(number, "status", "VmHWM") for number in workers), 0)


def batches_of(gibibytes: float, batches: int, touching: int) -> Iterator[list[int]]:
    """Iterate the keys of each batch: new ones until there is as much state, then some of all."""
    keys = round(gibibytes * 2**30 / VALUE_BYTES)
    edges = [keys * number // batches for number in range(batches + 1)]
    for start, end in itertools.pairwise(edges):
        yield list(range(start, end))
    source = random.Random("touching")
    for _ in range(touching):
        yield source.sample(range(keys), edges[1])


def large(asked: argparse.Namespace) -> None:
    """Run it, and print what was measured as a line of JSON."""
    with tempfile.TemporaryDirectory(prefix="stateful-large-") as name, ExitStack() as stack:
        place = Path(name)
        server = stack.enter_context(ServerProcess(place / "service", "--log-level", "warning"))
        server.start(deadline=_START_SECONDS)
        spark = spark_session(
            "", {"spark.master": f"local[{asked.cores}]", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
        )
        stack.callback(spark.stop)
        inputs = place / "in"
        inputs.mkdir()
        keys = list(batches_of(asked.gibibytes, asked.batches, asked.touching))
        for number, chosen in enumerate(keys):
            path = inputs / f"{number:06}.json"
            path.write_text("\n".join(json.dumps({"k": key}) for key in chosen))
            os.utime(path, (number, number))  # the files are read in the order of their times
        job = stack.enter_context(milepost.spark.lead(spark, server.url, "bench-large", ttl=60.0))
        files = LocalFiles(place / "state")

        def transform(frame: DataFrame, _context: Any) -> DataFrame:
            return milepost.spark.stateful(
                job,
                frame,
                key="k",
                processor=Keep(),
                output_type=OUTPUT,
                files=files,
                partitions=asked.partitions,
                keep=3,
                memory_bytes=asked.memory * 2**20,
                directory=str(place / "cache"),
            )

        memory = WorkersMemory()
        stack.callback(memory.stop)
        began = time.monotonic()
        source = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1).json(str(inputs))
        function = job.files(str(place / "out"), transform=transform)
        writer = source.writeStream.option("checkpointLocation", job.checkpointLocation).foreachBatch(function)
        query = writer.trigger(availableNow=True).start()
        if not job.awaitTermination(query, _BATCH_SECONDS):
            raise SystemExit(f"not done after {_BATCH_SECONDS} s: {query.lastProgress}")
        took = [told["batchDuration"] / 1000 for told in query.recentProgress if told["numInputRows"]]
        document = {
            "GiB of values": asked.gibibytes,
            "keys": len(set().union(*keys)),
            "MiB for the stores of a worker": asked.memory,
            "workers": asked.cores,
            "most MiB of all workers together": round(memory.most_together / 1024),
            "most MiB resident of one": round(memory.most_of_one / 1024),
            "s in all": round(time.monotonic() - began),
            "p50 s of a batch that touches keys all over": statistics.median(took[-asked.touching :]),
            "GiB on disk at the end": round(sum(map(_size, (place / "state").rglob("*"))) / 2**30, 2),
        }
        print(json.dumps(document), flush=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0

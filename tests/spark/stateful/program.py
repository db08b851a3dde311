"""A driver under test counts words with managed state, and tells of it.

It is started by ``python -m tests.spark.stateful.program SETUP``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import milepost.spark
from milepost.state.store import LocalFiles
from tests.spark.stateful.orders import Obeying, Orders
from tests.spark.stateful.processors import COUNTED, COUNTED_LETTERS, Count, CountLetters
from tests.spark.stateful.texts import WORDS
from tests.spark.under_test import hooks
from tests.spark.under_test.program import (
    STANDSTILL_SECONDS,
    Events,
    log_to_standard_error,
    spark_session,
    told_to_the_end,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE = "state"
IN_A_BATCH = ("before writing", "before evaluation", "after evaluation", "before publication", "after publication")
"""Before the state is processed; once all tasks have staged it; once the output is staged as well; and around the
compare-and-set that publishes both."""


@dataclass(frozen=True)
class Setup:
    """What the driver does: all is in ``directory``; it waits for the file ``lead`` before it leads, has so many
    ``partitions``, and tells its tasks the ``orders``. Once these are met, it stands still where it passes the point
    ``pause`` for the ``pause_at``-th time.

    With ``to_the_end`` it ends with its input; with ``letters`` the query has a column more. The state lies in the
    job's ``tree`` or in a directory; its last ``keep`` snapshots can be read; workers keep it in RocksDB with
    ``rocksdb``, and end with each task without ``reuse``. ``spark`` are more settings of Spark's.
    """

    url: str
    store: str
    directory: str
    partitions: int
    events: str
    go: str
    lead: str
    orders: str
    java_options: str
    pause: str = ""
    pause_at: int = 1
    to_the_end: bool = True
    letters: bool = False
    tree: bool = False
    keep: int = 100
    rocksdb: bool = False
    reuse: bool = True
    ttl: float = 8.0
    on: str = ""
    spark: dict[str, str] = field(default_factory=dict)

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Setup:
        return cls(**json.loads(text))


def main(setup: Setup) -> int:
    """Lead the job until its input is used up, or something ends it; 0 for an end that `milepost` has a name for."""
    tell = Events(setup.events)
    orders = Orders(setup.orders)
    passed = 0

    def passing(point: str, batch: int) -> None:
        nonlocal passed
        if point == "after publication":
            tell("published", batch=batch)
        if point == setup.pause and orders.all_met:
            passed += 1
            if passed == setup.pause_at:
                tell("paused", point=point, batch=batch)
                hooks.wait_for(setup.go, STANDSTILL_SECONDS)

    hooks.install(passing)
    spark = spark_session(
        setup.java_options,
        {
            "spark.master": "local[2,8]",
            "spark.local.dir": str(Path(setup.directory) / "scratch"),
            "spark.python.worker.reuse": str(setup.reuse).lower(),
            **setup.spark,
        },
    )
    _warm_up(spark)
    tell("standing by")
    hooks.wait_for(setup.lead, STANDSTILL_SECONDS)
    with (
        told_to_the_end(spark, tell),
        milepost.spark.lead(spark, setup.url, setup.store, ttl=setup.ttl, wait=120.0) as job,
    ):
        tell("leading", epoch=job.epoch, published=job.published)
        texts = spark.readStream.option("maxFilesPerTrigger", 1).text(str(Path(setup.directory) / "texts"))
        words = texts.selectExpr(WORDS)
        if setup.letters:
            words = words.selectExpr("word", "length(word) AS letters")
        writer = words.writeStream.option("checkpointLocation", job.checkpointLocation)
        function = job.files(str(Path(setup.directory) / "out"), transform=_counting(setup, job, orders))
        writer = writer.foreachBatch(function)
        job.awaitTermination((writer.trigger(availableNow=True) if setup.to_the_end else writer).start())
        tell("finished", published=job.published)
    return 0


def _warm_up(spark: SparkSession) -> None:
    """Have two workers import what a task needs, while another driver leads."""

    def imports(frames: Iterator[Any]) -> Iterator[Any]:
        import milepost.state.processors.task  # noqa: F401

        yield from frames

    spark.range(0, 4, 1, 2).mapInPandas(imports, "id long").collect()


def _counting(setup: Setup, job: milepost.spark.Job, orders: Orders) -> Any:
    processor, output = (CountLetters(), COUNTED_LETTERS) if setup.letters else (Count(), COUNTED)
    files = None if setup.tree else LocalFiles(Path(setup.directory) / STATE)

    def transform(frame: DataFrame, _context: Any) -> DataFrame:
        return milepost.spark.stateful(
            job,
            frame,
            key="word",
            processor=Obeying(processor, orders, setup.partitions),
            output_type=output,
            files=files,
            partitions=setup.partitions,
            keep=setup.keep,
            directory=str(Path(setup.directory) / "rocksdb") if setup.rocksdb else None,
        )

    return transform


if __name__ == "__main__":
    log_to_standard_error()
    sys.exit(main(Setup.decode(sys.argv[1])))

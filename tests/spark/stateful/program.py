"""A driver under test counts words with managed state, and tells of it.

It is started by ``python -m tests.spark.stateful.program SETUP``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import milepost.spark
from milepost.state.store import LocalFiles
from tests.spark.stateful.processors import COUNTED, Flaky
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
    from pyspark.sql import DataFrame

STATE = "state"
IN_A_BATCH = ("before writing", "before evaluation", "after evaluation", "before publication", "after publication")
"""Before the state is processed; once all tasks have staged it; once the output is staged as well; and around the
compare-and-set that publishes both."""


@dataclass(frozen=True)
class Setup:
    """What the driver does: all is in ``directory``; it has so many ``partitions``, and stands still where it passes
    the point ``pause`` for the ``pause_at``-th time.
    """

    url: str
    store: str
    directory: str
    partitions: int
    events: str
    go: str
    java_options: str
    pause: str = ""
    pause_at: int = 1
    ttl: float = 8.0
    on: str = ""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Setup:
        return cls(**json.loads(text))


def main(setup: Setup) -> int:
    """Lead the job until its input is used up, or something ends it; 0 for an end that `milepost` has a name for."""
    tell = Events(setup.events)
    directory = Path(setup.directory)
    passed = 0

    def passing(point: str, batch: int) -> None:
        nonlocal passed
        if point == "after publication":
            tell("published", batch=batch)
        if point == setup.pause:
            passed += 1
            if passed == setup.pause_at:
                tell("paused", point=point, batch=batch)
                hooks.wait_for(setup.go, STANDSTILL_SECONDS)

    hooks.install(passing)
    settings = {"spark.master": "local[2,4]", "spark.local.dir": str(directory / "scratch")}
    spark = spark_session(setup.java_options, settings)
    tell("standing by")
    with (
        told_to_the_end(spark, tell),
        milepost.spark.lead(spark, setup.url, setup.store, ttl=setup.ttl, wait=120.0) as job,
    ):
        tell("leading", epoch=job.epoch, published=job.published)
        files = LocalFiles(directory / STATE)

        def transform(frame: DataFrame, _context: Any) -> DataFrame:
            return milepost.spark.stateful(
                job,
                frame,
                key="word",
                processor=Flaky(str(directory / "failures")),
                output_type=COUNTED,
                files=files,
                partitions=setup.partitions,
            )

        texts = spark.readStream.option("maxFilesPerTrigger", 1).text(str(directory / "texts"))
        writer = texts.selectExpr(WORDS).writeStream.option("checkpointLocation", job.checkpointLocation)
        function = job.files(str(directory / "out"), transform=transform)
        query = writer.foreachBatch(function).trigger(availableNow=True).start()
        job.awaitTermination(query)
        tell("finished", published=job.published)
    return 0


if __name__ == "__main__":
    log_to_standard_error()
    sys.exit(main(Setup.decode(sys.argv[1])))

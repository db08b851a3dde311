"""Several jobs are led one after the other in one process, since a Spark takes long to start.

It is started by ``python -m tests.spark.under_test.several PLAN``.

The first driver of each job runs some batches, and then either stops in order or stands still where its batch is
published and Spark has not noted that yet, to be killed. The second one runs the job to its end, as on another machine.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import milepost.spark
from milepost.spark import Job
from tests.spark.trials.queries import PROVIDERS, read_input
from tests.spark.trials.stateful import QUERIES
from tests.spark.under_test.program import Events, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAST = 2
"""The batch that a first driver publishes last, of `FILES`."""
FILES = 5
DEADLINE_SECONDS = 240


@dataclass(frozen=True)
class Cell:
    """One job. ``ending`` is how its first driver ends, `STOPPED` or `KILLED`."""

    kind: str
    provider: str
    ending: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.provider}-{self.ending}"


STOPPED, KILLED = "stopped", "killed"


@dataclass(frozen=True)
class Plan:
    """The settings of such a driver. ``scratch`` holds files of its own; ``second`` says which of the two it is."""

    url: str
    cells: tuple[Cell, ...]
    directory: str
    scratch: str
    second: bool
    events: str
    java_options: str
    go: str = ""
    on: str = ""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Plan:
        raw = json.loads(text)
        return cls(**{**raw, "cells": tuple(Cell(**cell) for cell in raw["cells"])})


def store_of(cell: Cell, directory: Path) -> str:
    """The name of a cell's job."""
    return f"{directory.name}-{cell}"


def output_of(cell: Cell, directory: Path) -> Path:
    """Where a cell's job publishes."""
    return directory / f"out-{cell}"


def main(plan: Plan) -> int:
    """Run all cells; then wait to be killed, if there is anything to kill."""
    tell = Events(plan.events)
    options = f"{plan.java_options} -Djava.io.tmpdir={plan.scratch}"
    spark = spark_session(options, {"spark.local.dir": plan.scratch, "spark.sql.warehouse.dir": f"{plan.scratch}/wh"})
    with ExitStack() as held:
        for cell in plan.cells:
            for key in {key for settings in PROVIDERS.values() for key in settings}:
                spark.conf.unset(key)
            for key, value in PROVIDERS[cell.provider].items():
                spark.conf.set(key, value)
            _run(spark, plan, cell, tell, held)
        tell("all")
        threading.Event().wait(0.0 if plan.second else DEADLINE_SECONDS)
    spark.stop()
    return 0


def _run(spark: SparkSession, plan: Plan, cell: Cell, tell: Events, held: ExitStack) -> None:
    directory = Path(plan.directory)
    reached = threading.Event()
    with ExitStack() as stack:
        job = stack.enter_context(milepost.spark.lead(spark, plan.url, store_of(cell, directory), ttl=15.0, wait=60.0))
        tell("leading", cell=str(cell), published=job.published, location=job.checkpointLocation)
        kind = QUERIES[cell.kind]
        function = job.files(str(output_of(cell, directory)))
        if not plan.second:
            function = _ending(job, function, cell, reached)
        writer = kind.build(read_input(spark, str(directory / "in"))).writeStream.outputMode(kind.mode)
        writer = writer.option("checkpointLocation", job.checkpointLocation).foreachBatch(function)
        query = writer.trigger(availableNow=True).start()
        if not plan.second and cell.ending == KILLED:
            while not reached.wait(0.05):
                assert query.isActive, query.exception()
            held.push(stack.pop_all())
        else:
            assert job.awaitTermination(query, DEADLINE_SECONDS), "the query did not end in time"
    tell("ran", cell=str(cell), published=job.published)


def _ending(
    job: Job, function: Callable[[DataFrame, int], None], cell: Cell, reached: threading.Event
) -> Callable[[DataFrame, int], None]:
    """``function``, and the first driver's end after `LAST`."""

    def call(frame: DataFrame, batch: int) -> None:
        function(frame, batch)
        if batch == LAST:
            reached.set()
            if cell.ending == KILLED:
                threading.Event().wait(DEADLINE_SECONDS)
            threading.Thread(target=job.stop, daemon=True).start()

    return call


if __name__ == "__main__":
    sys.exit(main(Plan.decode(sys.argv[1])))

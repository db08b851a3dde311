"""One after another or side by side, drivers of one job; and what they told, put together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from testbed.server import ServerProcess
from tests.spark.clusters.setup import DISTINCT, Setup
from tests.spark.clusters.written import Written
from tests.spark.under_test.process import Driver
from tests.wire.support.api import connect

PROGRAM = "tests.spark.clusters.program"
Totals = dict[str, tuple[int, int]]


@dataclass
class Drivers:
    """The drivers of one job, started as ``setup`` says; and a service of their own, of whose journal all is kept."""

    setup: Setup
    server: ServerProcess
    written: Written
    directory: Path
    stack: ExitStack
    started: list[Driver] = field(default_factory=list)

    def start(self, **changes: object) -> Driver:
        """Start one more, which waits until it may lead."""
        mark = self.directory / f"driver-{len(self.started) + 1}"
        own = {"events": str(mark.with_suffix(".events")), "go": str(mark.with_suffix(".go"))}
        driver = self.stack.enter_context(Driver(replace(self.setup, **own, **changes), PROGRAM))  # type: ignore[arg-type]
        self.started.append(driver)
        return driver

    def totals(self) -> Totals:
        """Of each key the total and the number of its rows, as all batches told them.

        A batch that ran twice must have said the same. Of `TOTALS` the last word counts, of `DISTINCT` the sum of all.
        """
        batches: dict[int, list[Any]] = {}
        for driver in self.started:
            for event in driver.events():
                if event["event"] == "batch":
                    rows = sorted(event["rows"])
                    assert batches.setdefault(int(event["batch"]), rows) == rows, event
        assert sorted(batches) == list(range(len(batches)))
        totals: Totals = {}
        for key, total, count in itertools.chain.from_iterable(batches[number] for number in sorted(batches)):
            before = totals.get(key, (0, 0)) if self.setup.query == DISTINCT else (0, 0)
            totals[key] = (before[0] + total, before[1] + count)
        return totals

    def told(self) -> int:
        """How many rows were told of, each batch once."""
        return sum(count for _, count in self.totals().values())

    def batches(self) -> int:
        """How many batches were told of."""
        return sum(event["event"] == "batch" for driver in self.started for event in driver.events())

    def went_on(self, before: int) -> bool:
        """Whether there were more batches than these."""
        return self.batches() > before

    def written_twice(self) -> int:
        """How often a file was written where there was one already."""
        births = [birth.path for birth in self.written.births(self.setup.store)]
        return len(births) - len(set(births))

    def refused(self) -> int:
        """How many requests the service has refused with 403, as its metrics say."""
        with connect(self.server.url) as http:
            metrics = http.get("/metrics").text
        return sum(
            int(float(count))
            for count in re.findall(r'^milepost_requests_total{.*"403"} (\S+)$', metrics, re.MULTILINE)
        )


@contextmanager
def drivers(setup: Setup, server: ServerProcess, directory: Path) -> Iterator[Drivers]:
    """The drivers of a job, which end with the block."""
    with ExitStack() as stack:
        yield Drivers(setup, server, Written(directory / "service"), directory, stack)

"""Every kind of state goes on elsewhere, after an orderly end and after a kill.

A first driver runs some batches of each job. Then its machine is gone: it is killed, and all files of its own are
deleted. A second one in a new JVM, with another directory for its files, runs the rest. All batches together must be
those that the query gives without any of this. MILEPOST_SPARK_ROUNDS=full runs all combinations of operator, state
store and ending, otherwise it is those that differ most.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import PROVIDERS, Row, write_input
from tests.spark.trials.stateful import QUERIES
from tests.spark.under_test.process import Driver
from tests.spark.under_test.several import FILES, KILLED, LAST, STOPPED, Cell, Plan, output_of, store_of

pytestmark = [pytest.mark.spark, pytest.mark.long]

_DEADLINE_SECONDS = 400.0
_CUT = (
    Cell("transform", "rocksdb", STOPPED),
    Cell("transform", "rocksdb-v2", KILLED),
    Cell("join", "hdfs", KILLED),
    Cell("join", "rocksdb-changelog", STOPPED),
    Cell("pandas", "rocksdb", KILLED),
    Cell("windows", "rocksdb-v2", STOPPED),
)


def groups() -> dict[str, tuple[Cell, ...]]:
    """Which jobs share a pair of drivers."""
    if os.environ.get("MILEPOST_SPARK_ROUNDS") != "full":
        return {"cut": _CUT}
    return {
        f"{provider}-{ending}": tuple(
            Cell(kind, provider, ending) for kind in QUERIES if (kind, provider) != ("transform", "hdfs")
        )
        for provider in PROVIDERS  # Spark keeps the state of transformWithState in RocksDB alone
        for ending in (STOPPED, KILLED)
    }


class Relay:
    """Both drivers have run all jobs of a group."""

    def __init__(self, service: ServerProcess, java_options: str, directory: Path, cells: tuple[Cell, ...]) -> None:
        self._service = service
        self._java_options = java_options
        self.directory = directory
        write_input(directory / "in", FILES)
        with self._driver("first", cells) as first:
            first.wait_for("all", deadline=_DEADLINE_SECONDS)
            first.kill()
        own = self.directory / "first"
        assert next(own.iterdir(), None) is not None, "the first driver kept files of its own elsewhere"
        shutil.rmtree(own)
        with self._driver("second", cells) as second:
            second.wait_for("all", deadline=_DEADLINE_SECONDS)
            assert second.wait() == 0
            self.leading = {event["cell"]: event for event in second.events() if event["event"] == "leading"}

    def _driver(self, which: str, cells: tuple[Cell, ...]) -> Driver:
        scratch = self.directory / which
        scratch.mkdir()
        return Driver(
            Plan(
                url=self._service.url,
                cells=cells,
                directory=str(self.directory),
                scratch=str(scratch),
                second=which == "second",
                events=str(self.directory / f"{which}.events"),
                java_options=self._java_options,
            ),
            program="tests.spark.under_test.several",
        )

    def published(self, cell: Cell) -> dict[int, list[Row]]:
        """The rows of each published batch."""
        return published_rows(self._service.url, store_of(cell, self.directory), output_of(cell, self.directory))


@pytest.fixture(scope="module", params=groups().items(), ids=lambda group: group[0])
def relay(
    request: pytest.FixtureRequest,
    service: ServerProcess,
    java_options: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Relay, tuple[Cell, ...]]:
    name, cells = request.param
    return Relay(service, java_options, tmp_path_factory.mktemp(f"elsewhere-{name}"), cells), cells


def test_every_state_goes_on_elsewhere(relay: tuple[Relay, tuple[Cell, ...]]) -> None:
    ran, cells = relay
    for cell in cells:
        leading = ran.leading[str(cell)]
        assert leading["published"] == LAST, cell
        assert leading["location"].startswith("webhdfs://"), cell
        assert ran.published(cell) == dict(enumerate(QUERIES[cell.kind].expected(FILES))), cell

"""Files that executors write to disks of their own, as nobody could read them: no batch is published of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import KINDS, write_input
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

_SECONDS = 600.0


def test_output_where_executors_have_disks_of_their_own_is_refused(
    on_the_cluster: dict[str, str], service: ServerProcess, java_options: str, name: str, common: Path, tmp_path: Path
) -> None:
    """And where they have one in common with their driver, it is published."""
    write_input(common / "in", 2)

    def ended(output: Path, job: str) -> str:
        setup = Setup(
            url=service.url,
            store=job,
            kind="stateless",
            provider="hdfs",
            input=str(common / "in"),
            output=str(output),
            scratch=str(tmp_path / "scratch"),
            events=str(tmp_path / f"{job}.events"),
            java_options=java_options,
            ttl=60.0,
            spark=on_the_cluster,
        )
        with Driver(setup) as driver:
            end = driver.wait_for("finished", "ended", deadline=_SECONDS)
            return str(end.get("detail", end["event"]))

    told = ended(tmp_path / "own", name)
    assert "tasks looked for files that the driver wrote" in told
    assert "and 0 found one: executors have disks of their own there" in told
    assert published_rows(service.url, name, tmp_path / "own") == {}
    assert ended(common / "out", f"{name}-2") == "finished"
    published = published_rows(service.url, f"{name}-2", common / "out")
    assert [len(rows) for rows in published.values()] == [len(rows) for rows in KINDS["stateless"].expected(2)]

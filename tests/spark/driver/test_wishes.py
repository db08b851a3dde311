"""A person hands a job over, stops it and starts it again, and the drivers follow between two batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import milepost
from testbed.server import ServerProcess
from tests.spark.jobs import wait_until
from tests.spark.trials.queries import write_input
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

pytestmark = pytest.mark.spark


def ended_by_a_wish(driver: Driver) -> None:
    """The driver ends as by SIGTERM, and its log has one line about the wish."""
    assert driver.wait() == 128 + 15
    log = driver.log.read_text()
    assert "it finishes its batch, and resigns" in log
    assert "Traceback" not in log


def published(driver: Driver) -> list[int]:
    """The batches that the driver has published, in order."""
    return [event["batch"] for event in driver.events() if event["event"] == "published"]


def add_input(directory: Path, files: int) -> None:
    """Let there be so many files of input, of which there may be some already."""
    (directory / "in").mkdir(exist_ok=True)
    more = directory / f"more-{files}"
    write_input(more, files)
    for file in more.iterdir():
        if not (directory / "in" / file.name).exists():
            file.rename(directory / "in" / file.name)


def test_a_job_is_handed_over_stopped_and_started_without_a_batch_twice(
    service: ServerProcess, java_options: str, client: milepost.Client, name: str, tmp_path: Path
) -> None:
    def driver(which: str) -> Driver:
        return Driver(
            Setup(
                url=service.url,
                store=name,
                kind="aggregation",
                provider="hdfs",
                input=str(tmp_path / "in"),
                output=str(tmp_path / "out"),
                scratch=str(tmp_path / which),
                events=str(tmp_path / f"{which}.events"),
                java_options=java_options,
                ttl=60.0,
                available_now=False,
            )
        )

    def leading(driver: Driver) -> dict[str, Any]:
        event = driver.wait_for("leading")
        return {name: event[name] for name in ("epoch", "resumes_at", "entries")}

    add_input(tmp_path, 2)
    with driver("first") as first:
        first.wait_for("leading")
        with driver("second") as second:
            wait_until(lambda: published(first) == [0, 1])
            wait_until(lambda: client.job_info(name).standby_count == 1)
            client.hand_over_job(name, epoch=1)
            ended_by_a_wish(first)
            assert leading(second) == {"epoch": 2, "resumes_at": 2, "entries": 0}
            add_input(tmp_path, 3)
            second.wait_for("published")
            with driver("third") as third:
                wait_until(lambda: client.job_info(name).standby_count == 1)
                client.stop_job(name, savepoint="before")
                client.wait_for_end(name, 2, timeout=60.0)
                ended_by_a_wish(second)
                stopped = client.job_info(name)
                assert stopped.state == "stopped"
                assert [(each.name, each.snapshot.batch) for each in stopped.kept.savepoints] == [("before", 2)]
                wait_until(lambda: "standing by until the job is started" in third.log.read_text())
                client.start_job(name)
                assert leading(third) == {"epoch": 3, "resumes_at": 3, "entries": 0}
                add_input(tmp_path, 4)
                third.wait_for("published")
                client.stop_job(name)
                ended_by_a_wish(third)
            assert [published(first), published(second), published(third)] == [[0, 1], [2], [3]]
    entries = list(client.job_history(name))
    assert {each.epoch: each.how for each in entries if each.kind == "epoch-ended"} == {
        1: "handed-over",
        2: "stopped",
        3: "stopped",
    }
    assert not any(each.replay for each in entries)

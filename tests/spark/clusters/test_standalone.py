"""A standalone cluster whose executors share no disk with their driver, nor with each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.spark import Standalone
from tests.spark.clusters.drivers import Drivers
from tests.spark.clusters.topics import Topics, rows, totals

pytestmark = pytest.mark.spark


@pytest.mark.timeout(900)
@pytest.mark.parametrize("provider", ["rocksdb", pytest.param("hdfs", marks=pytest.mark.slow)])
def test_executors_keep_state_without_a_common_disk(
    spread: Drivers, cluster: Standalone, topics: Topics, provider: str, tmp_path: Path
) -> None:
    """Batches run on both executors, which see no file of the driver; a second driver goes on with their state."""
    file = tmp_path / "of the driver"
    file.write_text("for its eyes alone")
    topics.make(spread.setup.topic, 4)
    topics.put(spread.setup.topic, rows(80))
    first = spread.start(available_now=True, provider=provider, seen=str(file))
    first.wait_for("finished")
    sights = [tuple(visibility) for event in first.events() if event["event"] == "seen" for visibility in event["by"]]
    assert file.exists()
    assert {saw for _, saw in sights} == {False}
    for worker in cluster.workers:
        assert any(place.startswith(f"{worker.directory}/work/") for place, _ in sights), sights

    topics.put(spread.setup.topic, rows(40, 80))
    second = spread.start(available_now=True, provider=provider)
    tasks = second.wait_for("finished")["tasks"]
    assert [event["batch"] for event in second.events() if event["event"] == "batch"] == [2]
    assert spread.totals() == totals(rows(120))
    assert len(tasks) == 2
    assert min(tasks.values()) > 0


def test_executors_keep_the_state_of_an_isolated_session(spread: Drivers, cluster: Standalone, topics: Topics) -> None:
    """Every session of a Connect server is one: its tasks see what was added to it alone."""
    isolated = {f"spark.sql.artifact.isolation.{name}": "true" for name in ("enabled", "alwaysApplyClassLoader")}
    spread.setup = replace(spread.setup, spark={**spread.setup.spark, **isolated})
    topics.make(spread.setup.topic, 4)
    topics.put(spread.setup.topic, rows(40))
    spread.start(available_now=True).wait_for("finished")
    assert spread.totals() == totals(rows(40))
    got = [path for worker in cluster.workers for path in Path(worker.directory).rglob("milepost.jar")]
    assert got, "the manager of its files is among what a session has added"

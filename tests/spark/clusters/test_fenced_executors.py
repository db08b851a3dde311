"""A driver is fenced while its executors are in the midst of their tasks: nothing of what they write is accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.spark import Standalone
from tests.spark.clusters.drivers import Drivers
from tests.spark.clusters.page import Page
from tests.spark.clusters.setup import DISTINCT
from tests.spark.clusters.topics import Topics, rows, totals
from tests.spark.jobs import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

_FEW = 8


@pytest.mark.parametrize("provider", [pytest.param("rocksdb", marks=pytest.mark.slow), "rocksdb-v2", "hdfs"])
def test_executors_of_a_fenced_driver_are_refused(
    spread: Drivers, cluster: Standalone, topics: Topics, provider: str
) -> None:
    """The whole application stands still until its successor has the epoch. Then first its executors go on.

    They go on alone, since a driver would call them back. Every row is there twice, and must count once.
    """
    spread.setup = replace(spread.setup, query=DISTINCT, provider=provider)
    topics.make(spread.setup.topic, 2)
    topics.put(spread.setup.topic, rows(_FEW) * 2)
    zombie = spread.start(slow=1000)
    page = Page(zombie)
    zombie.wait_for("batch")
    topics.put(spread.setup.topic, rows(120, _FEW) * 2)
    wait_until(lambda: len(page.busy(3.0)) == 2)  # of 10 s that each task takes, and by then its state is open
    executors = list(page.processes(cluster).values())
    assert len(executors) == 2
    zombie.freeze()
    for executor in executors:
        executor.pause()
    successor = spread.start(available_now=True)
    assert successor.wait_for("leading")["epoch"] == 2
    before = spread.refused()
    for executor in executors:
        executor.resume()
    wait_until(lambda: spread.refused() > before)
    zombie.thaw()
    assert zombie.wait_for("failed", "finished")["event"] == "failed"
    successor.wait_for("finished")
    # What it failed of in the end may also be a file that its successor needs no more, and has deleted.
    log = zombie.log.read_text()
    assert "AccessControlException" in log
    assert f"epoch 1 was given, the current one of {spread.setup.store!r} is 2" in log
    assert spread.totals() == totals(rows(_FEW + 120))
    assert sorted(spread.written.grants(spread.setup.store)) == [1, 2]
    assert {birth.epoch for birth in spread.written.births(spread.setup.store)} == {1, 2}
    assert spread.written.late(spread.setup.store) == []
    print(f"{spread.refused() - before} requests of epoch 1 were refused after the grant of epoch 2")

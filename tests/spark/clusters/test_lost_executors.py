"""Executors die, or stand still while another one does their task, and go on later: every row counts once."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest

from testbed.spark import Standalone
from tests.spark.clusters.drivers import Drivers
from tests.spark.clusters.page import Page
from tests.spark.clusters.setup import DISTINCT
from tests.spark.clusters.topics import Feed, Topics, rows, totals
from tests.spark.jobs import wait_until
from tests.spark.under_test.process import Driver

pytestmark = [pytest.mark.spark, pytest.mark.long]

_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
}


_NEW_ROWS = 40
"""How many rows of each batch are new; the others were in the batch before."""
_TRIES = 12
"""How often an executor is paused at most; it may end its task before the signal comes."""


@pytest.mark.parametrize("provider", ["rocksdb-changelog", pytest.param("hdfs", marks=pytest.mark.slow)])
def test_executors_that_are_killed_are_replaced(
    spread: Drivers, cluster: Standalone, topics: Topics, provider: str
) -> None:
    """One in the midst of a task, and later both at once. Every row is there twice, and must count once."""
    spread.setup = replace(spread.setup, query=DISTINCT, provider=provider, slow=250, per_batch=2 * _NEW_ROWS)
    topics.make(spread.setup.topic, 2)
    feed = Feed(topics, spread.setup.topic, _NEW_ROWS, spread.told)
    driver = spread.start()
    driver.wait_for("started")
    feed.until(lambda: feed.count > 0 and feed.done())
    page, killed = Page(driver), 0
    for count in (1, 2):
        feed.until(lambda: len(page.busy(1.0)) == 2)
        done = spread.batches()
        for executor in list(page.processes(cluster).values())[:count]:
            executor.kill()
            killed += 1
        wait_until(partial(spread.went_on, done))
    feed.end()
    assert killed == 3
    assert spread.totals() == totals(rows(feed.count))
    assert spread.written.late(spread.setup.store) == []


@pytest.mark.parametrize("provider", ["rocksdb-v2", "hdfs"])
def test_a_task_that_goes_on_after_another_did_it_changes_nothing(
    spread: Drivers, cluster: Standalone, topics: Topics, provider: str
) -> None:
    """Three times an executor stands still in a task with its state open until Spark has let the other one do it.

    There is one partition, so that one executor reads a batch and has all that is shuffled: the other one is paused.
    """
    spread.setup = replace(
        spread.setup,
        query=DISTINCT,
        provider=provider,
        slow=150,
        per_batch=2 * _NEW_ROWS,
        spark=spread.setup.spark | _SPECULATION,
    )
    topics.make(spread.setup.topic, 1)
    feed = Feed(topics, spread.setup.topic, _NEW_ROWS, spread.told)
    driver = spread.start()
    driver.wait_for("started")
    feed.until(lambda: feed.count > 0 and feed.done())
    page, tries = Page(driver), 0
    while _done_twice(driver) < 3:
        tries += 1
        assert tries <= _TRIES, f"{_done_twice(driver)} tasks were done twice in {_TRIES} tries"
        takers = feed.until(lambda: page.takers(0.5))
        zombie, done = page.processes(cluster)[takers[0]], spread.batches()
        zombie.pause()
        wait_until(partial(spread.went_on, done))
        zombie.resume()
    feed.end()
    log = driver.log.read_text()
    assert log.count("as speculatable") >= 3
    assert spread.totals() == totals(rows(feed.count))
    assert spread.written.late(spread.setup.store) == []
    print(f"{log.count('as speculatable')} tasks were done twice, {spread.written_twice()} files written twice")


def _done_twice(driver: Driver) -> int:
    """How many tasks another executor did while the first one stood still."""
    return len(re.findall("Killing attempt 0 for task .* as the attempt 1 succeeded", driver.log.read_text()))

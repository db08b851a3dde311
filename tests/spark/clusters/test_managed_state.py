"""Spark runs tasks with managed state twice, on two hosts: one result is published, the other one is never read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.jobs import wait_until
from tests.spark.stateful.orders import BEFORE_COMMIT, IN_ROWS, Orders
from tests.spark.stateful.rounds import Fault, Job, beside
from tests.spark.under_test.process import Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.python.task.killTimeout": "120s",  # so long Spark lets the slower one go on, as one that it cannot reach
}
_STEPS = (BEFORE_COMMIT, IN_ROWS, BEFORE_COMMIT)
_LATE = (1, 1, 2)
"""How many of the slower tasks have committed in the end, at least: one among its rows may not get the rest of them."""
_SECONDS = 300.0


def test_of_a_slow_task_and_the_one_beside_it_one_is_published(
    on_the_cluster: dict[str, str], service: ServerProcess, java_options: str, common: Path
) -> None:
    spark = on_the_cluster | _SPECULATION
    job = Job(common, service.url, java_options, tree=True, spark=spark)
    job.feed(2 * len(_STEPS) + 2)
    with job.start(Fault("", 1, frozen=False, partitions=3), letters=True) as driver:
        orders = Orders(str(beside(driver, "orders")))
        beside(driver, "lead").touch()
        driver.wait_for("leading", deadline=_SECONDS)
        for number, (step, late) in enumerate(zip(_STEPS, _LATE, strict=True)):
            orders.give((step,))  # not before, or the task beside a slow one might meet it
            slow = job.standing(driver, orders, number)
            published = len(_published(driver))  # and the batch of the slow task is the next
            driver.until(partial(_has_published, driver, published), "waits for the slow task", _SECONDS)
            slow.let_go()
            wait_until(partial(_has_committed, orders, late), _SECONDS)
        driver.wait_for("finished", deadline=_SECONDS)
        driver.wait(_SECONDS)
    job.check()


def _published(driver: Driver) -> list[int]:
    return [event["batch"] for event in driver.events() if event["event"] == "published"]


def _has_published(driver: Driver, before: int) -> bool:
    return len(_published(driver)) > before


def _has_committed(orders: Orders, commits: int) -> bool:
    return orders.late_commits >= commits

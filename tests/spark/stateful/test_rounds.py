"""Drivers and tasks that are killed around the commit and the publication of state, or frozen there."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.stateful.orders import AFTER_COMMIT, BEFORE_LINK, FAILS
from tests.spark.stateful.rounds import Fault, Job

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_a_killed_driver_and_a_zombie_lose_and_double_nothing(
    service: ServerProcess, java_options: str, tmp_path: Path
) -> None:
    frozen = Fault("before publication", 2, frozen=True, partitions=3, tasks=(FAILS, AFTER_COMMIT))
    orphaned = Fault(BEFORE_LINK, 1, frozen=False, partitions=2)
    told = Job(tmp_path, service.url, java_options).play([frozen, orphaned]).counts
    assert sum(count for what, count in told.items() if what.startswith("refused")) == 1
    assert (told["tasks killed"], told["tasks failed"], told["drivers killed in a task"]) == (1, 1, 1)
    assert told["late commits of state"] >= 1, "the task of the killed driver goes on, and nobody reads what it commits"

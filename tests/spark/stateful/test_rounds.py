"""Drivers that are killed between staging and publishing, or frozen there, and tasks that fail after their work."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.stateful.rounds import Fault, Job

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_a_killed_driver_and_a_zombie_lose_and_double_nothing(
    service: ServerProcess, java_options: str, tmp_path: Path
) -> None:
    job = Job(tmp_path, service.url, java_options, 5)
    killed = Fault("before publication", 2, frozen=False, partitions=3, failures=2)
    frozen = Fault("before evaluation", 2, frozen=True, partitions=2)
    assert job.play([killed, frozen]) == 1

"""What a driver's own page tells of its executors and stages while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.spark import Executor, Standalone
from tests.spark.clusters.setup import REDUCERS
from tests.spark.under_test.process import Driver
from tests.wire.support.api import connect


@dataclass(frozen=True)
class Page:
    """The page of a driver that stands by, or has."""

    driver: Driver

    @property
    def application(self) -> str:
        """Its application's id."""
        return str(self._told()["app"])

    def busy(self, seconds: float = 0.0) -> list[str]:
        """The numbers of the executors that have been in a task with state for so long."""
        found = []
        for stage in self._get("stages?status=active"):
            if stage["numTasks"] == REDUCERS:
                tasks = self._get(f"stages/{stage['stageId']}/{stage['attemptId']}/taskList?status=running")
                found += [task["executorId"] for task in tasks if task.get("duration", 0) >= 1000 * seconds]
        return sorted(set(found))

    def takers(self, seconds: float) -> list[str]:
        """The numbers of the executors busy for so long that only take in what is shuffled: none of it came from them.

        Whichever executor read the rows of a batch gives them to the others, so that those wait while it stands still.
        """
        giving = {
            task["executorId"]
            for job in self._get("jobs?status=running")
            for stage in job["stageIds"]
            for attempt in self._get(f"stages/{stage}")
            if attempt["numTasks"] != REDUCERS
            for task in self._get(f"stages/{stage}/{attempt['attemptId']}/taskList?status=success")
        }
        return [number for number in self.busy(seconds) if number not in giving]

    def processes(self, cluster: Standalone) -> dict[str, Executor]:
        """The process of each of its executors."""
        return {executor.number: executor for executor in cluster.executors(self.application)}

    def _told(self) -> dict[str, Any]:
        told = self.driver.event("standing by")
        assert told is not None
        return told

    def _get(self, what: str) -> Any:
        with connect(self._told()["ui"]) as http:
            return http.get(f"/api/v1/applications/{self.application}/{what}").raise_for_status().json()

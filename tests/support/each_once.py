"""What xdist lacks for a worker that dies: the test that it died of fails, by its name, and is not tried again.

xdist gives such a test to the next worker where the tests of a file stay together, and so on until it gives up; and
a worker that dies of what follows its last test would not count.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


class Controller:
    """Hears what the workers tell, and remembers which test each is at."""

    def __init__(self) -> None:
        self.running: dict[Any, str] = {}
        self._died = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        node = getattr(report, "node", None)
        if node is None:
            return
        if report.when == "teardown":
            self.running.pop(node, None)
        else:
            self.running[node] = report.nodeid

    def pytest_testnodedown(self, error: object) -> None:
        self._died = self._died or error is not None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker that died is a failure, whatever it was at."""
        if self._died and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> object | None:
        return EachOnce(self, config, log) if config.getvalue("dist") == "loadfile" else None


class EachOnce(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives no worker what another one died of, and each what it takes to begin."""

    def __init__(self, controller: Controller, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._controller = controller

    def remove_node(self, node: Any) -> str | None:
        """The test that the worker was at when it died; None for one that had no more to do."""
        units = self.assigned_work[node]
        running = self._controller.running.pop(node, None)
        left = [test for unit in units.values() for test, over in unit.items() if not over]
        if running is None and left:
            running = left[0]
        for scope, unit in list(units.items()):
            unit.update({test: True for test in unit if test == running})
            if all(unit.values()):
                del units[scope]
        super().remove_node(node)
        return running

    def _reschedule(self, node: Any) -> None:
        """A worker that has come in the place of another gets nothing before it has collected.

        One that has a single test waits with it until it has another, or is told that there is none.
        """
        if node not in self.registered_collections:
            return
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

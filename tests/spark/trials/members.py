"""The drivers of a job, by ``milepost.spark.lead`` or under ``milepost run``; signals reach both."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from tests.spark.supervise.supervised import Supervised
from tests.spark.trials.plan import DRIVER, JVM, PYTHON
from tests.spark.under_test.process import Driver

_CLEAR = {"Fenced", "SessionExpired", "SessionUnknown", "NoProgress", "JvmLost"}
"""What a driver ends with that was interrupted, or cut off from the service."""


class Member(Protocol):
    """A driver that leads, led, or stands by."""

    hits: list[str]

    @property
    def name(self) -> str: ...

    @property
    def epoch(self) -> int:
        """The epoch that it leads or led last; 0 before."""

    @property
    def running(self) -> bool: ...

    @property
    def fit(self) -> bool:
        """Whether it can lead or go on leading: it is not on its way out."""

    @property
    def ready(self) -> bool:
        """Whether it has come so far that it waits for its turn, or has had it."""

    @property
    def application(self) -> str | None:
        """The id of its Spark application, as soon as there is one."""

    def send(self, number: signal.Signals, whom: str) -> None:
        """Send a signal to all of it, or to a part; to nobody if that is gone."""

    def over(self, epoch: int) -> bool:
        """Whether nothing is left of what it ran under this epoch."""

    def end(self) -> str | None:
        """How it ended, once it has: empty for as one may, else what is wrong with that."""

    def told(self) -> str:
        """What is known of it, for who looks for a cause."""


class Leading:
    """A Python driver of its own, in a process group with its JVM."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.hits: list[str] = []
        self.name = Path(driver.setup.events).stem

    @property
    def epoch(self) -> int:
        leading = self._driver.event("leading")
        return 0 if leading is None else int(leading["epoch"])

    @property
    def running(self) -> bool:
        return self._driver.running

    @property
    def fit(self) -> bool:
        doomed = any(hit.startswith(("kill", "terminate")) for hit in self.hits)
        events = {str(event["event"]) for event in self._driver.events()}
        return self._driver.running and not doomed and not events & {"ended", "finished", "left"}

    @property
    def ready(self) -> bool:
        return self.fit and self._driver.event("standing by") is not None

    @property
    def application(self) -> str | None:
        event = self._driver.event("standing by")
        return None if event is None else str(event["application"])

    def send(self, number: signal.Signals, whom: str) -> None:
        self._driver.send(number, {DRIVER: "both", PYTHON: "python", JVM: "jvm"}[whom])

    def over(self, _epoch: int) -> bool:
        return not self._driver.running

    def end(self) -> str | None:
        if self._driver.running:
            return None
        status, event = self._driver.wait(), self._driver.event("ended")
        if any(hit.startswith("kill") for hit in self.hits) and status == -signal.SIGKILL:
            return ""
        if any(hit.startswith("terminate") for hit in self.hits) and status in (
            0,
            128 + signal.SIGTERM,
            -signal.SIGTERM,
        ):
            return ""
        how = f"status {status}" if event is None else str(event["error"])
        return "" if how in _CLEAR and (self.epoch or how == "JvmLost") else how

    def told(self) -> str:
        return str(self._driver.failed(f"was hit by {self.hits}"))


class Running:
    """A supervisor with the command that it runs, each in a process group of its own."""

    def __init__(self, name: str, supervised: Supervised, applications: Path) -> None:
        self.name = name
        self._supervised = supervised
        self._applications = applications
        self.hits: list[str] = []

    @property
    def epoch(self) -> int:
        return max((epoch for epoch, _ in self._supervised.starts()), default=0)

    @property
    def running(self) -> bool:
        return self._supervised.running

    @property
    def fit(self) -> bool:
        """A command that ends is begun anew, and a supervisor that froze stands by again."""
        doomed = any(hit in ("kill python", "kill driver", "terminate python", "terminate driver") for hit in self.hits)
        return self.running and not doomed

    @property
    def ready(self) -> bool:
        return self.fit

    @property
    def application(self) -> str | None:
        if not self._applications.exists():
            return None
        known = dict(line.split() for line in self._applications.read_text().splitlines())
        return known.get(str(self.epoch))

    def send(self, number: signal.Signals, whom: str) -> None:
        if whom in (DRIVER, JVM) and self._supervised.starts():
            with suppress(ProcessLookupError):
                self._supervised.send_command(number)
        if whom in (DRIVER, PYTHON) and self.running:
            self._supervised.send(number)

    def over(self, epoch: int) -> bool:
        pid = dict(self._supervised.starts()).get(epoch)
        if pid is None:
            return True
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return True
        return False

    def end(self) -> str | None:
        """Whoever was not killed or asked to end goes on for ever."""
        if self.running:
            return None
        asked = any(hit.startswith(("kill", "terminate")) for hit in self.hits)
        return "" if asked else f"status {self._supervised.ended()}"

    def told(self) -> str:
        return f"{self.name} was hit by {self.hits}\n--- log ---\n{self._supervised.log()[-6000:]}"


def leading(driver: Driver, stack: ExitStack) -> Member:
    """A driver that ends with the stack."""
    return Leading(stack.enter_context(driver))


def running(name: str, supervised: Supervised, applications: Path, stack: ExitStack) -> Member:
    """A supervisor that ends with the stack, and its command with it."""
    return Running(name, stack.enter_context(supervised), applications)

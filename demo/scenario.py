"""The story that a run tells, the same with Milepost and without: pause a driver, succeed it, wake it; kill the next.

Driver A leads, B and C stand by. The leader is paused where it has computed a batch and not published it. A standby
takes over and goes on until it has published a later batch, of which Spark has not noted the end yet. There the paused
driver is woken, and tries to go on where it was. Then the second driver is killed, and the third one finishes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from demo.processes import DemoFailed, Process, Processes
from demo.report.progress import Progress
from demo.spark.settings import AFTER_PUBLISHING, BEFORE_PUBLISHING, DriverSettings, Halt
from demo.timeline import (
    FAILED,
    FENCED,
    FINISHED,
    HALTED,
    KILLED,
    LEADS,
    PAUSED,
    PUBLISHED,
    SERVICE_KILLED,
    STANDBY,
    WOKEN,
    Event,
    EventLog,
)

_POLL_SECONDS = 0.1
_DEADLINE_SECONDS = 180.0
_EXIT_SECONDS = 30.0


@dataclass(frozen=True)
class Script:
    """In which batches drivers are paused and killed, and after how many seconds a silent driver counts as gone."""

    pause_in: int
    kill_in: int
    ttl: float

    @property
    def pause(self) -> Halt:
        """Where the first driver stands still."""
        return Halt(BEFORE_PUBLISHING, self.pause_in)

    @property
    def kill(self) -> Halt:
        """Where the second driver stands still."""
        return Halt(AFTER_PUBLISHING, self.kill_in)


class Scenario:
    """One run with the drivers of the module ``program``; ``settings`` are theirs, but for names and halts.

    Each driver begins when it is told to, by a file of its own. Standbys of Milepost are told as soon as driver A
    leads, and wait for its epoch. ``told`` is for drivers that cannot know when it is their turn: one is told once the
    driver before it has been gone for the script's ``ttl``.
    """

    def __init__(
        self,
        processes: Processes,
        program: str,
        settings: DriverSettings,
        script: Script,
        progress: Progress,
        *,
        told: bool,
    ) -> None:
        self._processes = processes
        self._program = program
        self._settings = replace(settings, halts=(script.pause, script.kill))
        self._script = script
        self._progress = progress
        self._told = told
        self._directory = Path(settings.events).parent
        self._log = EventLog(Path(settings.events))
        self._drivers: dict[str, Process] = {}
        self._expected_to_end: set[str] = set()

    def prepare(self) -> None:
        """Start the first two drivers ahead of `play`, so that they are warm when they are needed."""
        self._start("driver A")
        self._start("driver B")

    def play(self, meanwhile: Callable[[], None], kill_service: Callable[[], str] | None = None) -> list[Event]:
        """Run it to its end; what happened. Raises `DemoFailed`.

        ``meanwhile`` is called when the second driver was killed: until its session expires, the processor is free.
        ``kill_service`` kills the leader of the service and names it. It is called when the second driver has published
        its first batch, and once more together with the death of that driver.
        """
        if not self._drivers:
            self.prepare()
        self._tell("driver A")
        self._wait_for(LEADS)
        if not self._told:
            self._tell("driver B")
            self._tell("driver C")
        first = self._wait_for(HALTED, batch=self._script.pause_in).driver
        self._wait_for(STANDBY, count=2)

        self._drivers[first].pause()
        self._log.note(first, PAUSED)
        self._start("driver C")
        self._hand_over("driver B")
        if kill_service is not None:
            self._wait_for(PUBLISHED, batch=self._script.pause_in)
            self._log.note("the service's leader", SERVICE_KILLED, detail=kill_service())
        second = self._wait_for(HALTED, batch=self._script.kill_in).driver
        self._wait_for(STANDBY, count=3)

        self._expected_to_end.add(first)
        (self._directory / f"{self._script.pause.name}.over").touch()
        self._log.note(first, WOKEN)
        self._drivers[first].wake()
        self._wait_for(FENCED, FAILED, FINISHED, driver=first)

        self._expected_to_end.add(second)
        self._log.note(second, KILLED)
        self._drivers[second].kill()
        if kill_service is not None:
            self._log.note("the service's leader", SERVICE_KILLED, detail=kill_service())
        meanwhile()
        self._hand_over("driver C")
        third = self._wait_for(FINISHED).driver
        for driver in (first, third):
            self._drivers[driver].wait(_EXIT_SECONDS)
        return self._log.events()

    def _start(self, driver: str) -> None:
        settings = replace(self._settings, name=driver, begin=str(self._begin(driver)))
        log = f"{self._directory.name} {driver}"
        self._drivers[driver] = self._processes.start(log, self._program, settings.to_json())

    def _hand_over(self, driver: str) -> None:
        if self._told:
            time.sleep(self._script.ttl)
            self._tell(driver)

    def _tell(self, driver: str) -> None:
        self._begin(driver).touch()

    def _begin(self, driver: str) -> Path:
        return self._directory / f"begin-{driver.replace(' ', '-')}"

    def _wait_for(self, *what: str, batch: int | None = None, driver: str | None = None, count: int = 1) -> Event:
        """The last of the first ``count`` events that fit. Drivers that end meanwhile and should not end the wait."""
        end = time.monotonic() + _DEADLINE_SECONDS
        while True:
            dead = [name for name, process in self._drivers.items() if process.exit_status not in (None, 0)]
            events = self._log.events()
            self._progress.show(events)
            fitting = [
                event
                for event in events
                if event.what in what and batch in (None, event.batch) and driver in (None, event.driver)
            ]
            if len(fitting) >= count:
                return fitting[count - 1]
            for name in set(dead) - self._expected_to_end:
                raise self._drivers[name].failed(f"ended with {self._drivers[name].exit_status}")
            if time.monotonic() > end:
                raise DemoFailed(f"no driver has {' or '.join(what)} after {_DEADLINE_SECONDS:g} s; see the logs")
            time.sleep(_POLL_SECONDS)

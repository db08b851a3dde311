"""The story that both runs tell: one driver is paused, succeeded and woken; then the next one is killed.

Under Milepost both drivers are started at once, and the service tells who leads. Without it, somebody has to decide
that a driver is gone: the next one is started when it was silent for as long as a session of Milepost lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from demo.cluster.drivers import Driver
from demo.cluster.feed import Feed
from demo.cluster.output import flights_in, totals_of
from demo.processes import DemoFailed
from demo.report.progress import Progress
from demo.timeline import (
    BEGAN,
    FINISHED,
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

PAUSE_IN = 3
_AHEAD = 6  # so many batches more has the second driver published when the first one is woken
_REVIVED = 3  # so many batches shows one that goes on as if nothing had happened
_SHARES = (0.2, 0.45, 0.65, 0.8, 1.0)  # of the flights: until the pause, the waking, its end, the kill, and then
_POLL_SECONDS = 0.05
_DEADLINE_SECONDS = 400.0  # on a machine that has much else to do
_END_SECONDS = 60.0


@dataclass(frozen=True)
class Stage:
    """What a run is played on. ``flights`` is how many there are; ``kill_service`` is None without Milepost."""

    drivers: tuple[Driver, Driver]
    feed: Feed
    flights: int
    output: Path
    log: EventLog
    progress: Progress
    ttl: float
    kill_service: Callable[[], str] | None


def play(stage: Stage) -> list[Event]:
    """Play it to its end; what happened. Raises `DemoFailed`, and `ProcessFailed` if a part cannot be started.

    On a machine that has too much else to do, a driver may lose its session without being broken. So it is whoever
    leads who is paused, and killed.
    """
    first, second = stage.drivers
    supervised = stage.kill_service is not None
    stage.feed.allow(_SHARES[0])
    _begin(stage, first)
    if supervised:
        _wait(stage, LEADS)
        _begin(stage, second)
        _wait(stage, STANDBY, driver=second)
    first = _wait(stage, BEGAN, batch=PAUSE_IN)
    second = _other(stage, first)
    first.pause()
    stage.log.note(first.name, PAUSED)
    stage.feed.allow(_SHARES[1])
    _hand_over(stage, second)
    _wait(stage, PUBLISHED, driver=second)
    _kill_service(stage)
    _wait(stage, PUBLISHED, driver=second, batch=PAUSE_IN + _AHEAD)

    stage.feed.allow(_SHARES[2])
    woken = stage.log.note(first.name, WOKEN)
    first.wake_command()
    if supervised:
        # What supervises it sleeps on for a moment, and so nothing but the fence keeps its command from writing.
        _until(stage, first.has_failed, f"did not end for {first.name}")
        first.wake()
        _wait(stage, STANDBY, driver=first, after=woken)
    else:
        _until(stage, lambda: first.has_failed() or _published(stage, first, woken) >= _REVIVED, "does nothing")

    stage.feed.allow(_SHARES[3])  # so that there is another batch, however long that end took
    broken = _wait(stage, BEGAN, driver=None if supervised else second, after=time.monotonic())
    last = _other(stage, broken)
    broken.kill()
    killed = stage.log.note(broken.name, KILLED)
    _kill_service(stage)
    stage.feed.allow(_SHARES[4])
    if not supervised:
        _until(stage, last.has_failed, "goes on for ever")
    _hand_over(stage, last)
    _wait(stage, LEADS, driver=last, after=killed)
    _until(stage, lambda: flights_in(totals_of(stage.output)) >= stage.flights, "does not get through")
    last.process.terminate()
    last.process.wait(_END_SECONDS)
    stage.log.note(last.name, FINISHED)
    _look(stage)
    return stage.log.events()


def _other(stage: Stage, driver: Driver) -> Driver:
    return next(each for each in stage.drivers if each is not driver)


def _begin(stage: Stage, driver: Driver) -> None:
    driver.start()
    if stage.kill_service is None:
        stage.log.note(driver.name, LEADS)


def _hand_over(stage: Stage, driver: Driver) -> None:
    if stage.kill_service is None:
        time.sleep(stage.ttl)
        _begin(stage, driver)


def _kill_service(stage: Stage) -> None:
    if stage.kill_service is not None:
        _look(stage)
        stage.log.note("the service's leader", SERVICE_KILLED, detail=stage.kill_service())


def _published(stage: Stage, driver: Driver, after: float) -> int:
    return sum(
        event.what == PUBLISHED and event.driver == driver.name and event.at > after for event in stage.log.events()
    )


def _wait(stage: Stage, what: str, *, driver: Driver | None = None, batch: int = 0, after: float = 0.0) -> Driver:
    """Wait for an event of a driver, or of any: in this batch or a later one, after that time; the driver."""
    found: list[Event] = []

    def happened() -> bool:
        found[:] = [
            event
            for event in stage.log.events()
            if event.what == what
            and (driver is None or event.driver == driver.name)
            and event.at > after
            and (event.batch or 0) >= batch
        ]
        return bool(found)

    _until(stage, happened, f"was not told that {driver.name if driver else 'any driver'} {what}")
    return next(each for each in stage.drivers if each.name == found[-1].driver)


def _until(stage: Stage, holds: Callable[[], bool], complaint: str) -> None:
    end = time.monotonic() + _DEADLINE_SECONDS
    while True:
        _look(stage)
        if holds():
            return
        if time.monotonic() > end:
            logs = ", ".join(str(driver.process.log_path) for driver in stage.drivers)
            raise DemoFailed(f"the story {complaint} for {_DEADLINE_SECONDS:g} s; see {logs}")
        time.sleep(_POLL_SECONDS)


def _look(stage: Stage) -> None:
    for driver in stage.drivers:
        driver.poll()
    stage.feed.check()
    stage.progress.show(stage.log.events())

"""What happened when: events that drivers and the demo append to one file, a line of JSON each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

# What a driver does. It has evaluated a batch when it ran it for its state alone, since it was published before.
STANDBY = "standby"
LEADS = "leads"
BEGAN = "began"
HALTED = "halted"
PUBLISHED = "published"
EVALUATED = "evaluated"
FENCED = "fenced"
FAILED = "failed"
FINISHED = "finished"
# What is done to a driver.
PAUSED = "paused"
WOKEN = "woken"
KILLED = "killed"
# What is done to the service.
SERVICE_KILLED = "service killed"

_ENDS = (PUBLISHED, EVALUATED, FENCED, FAILED, KILLED)


@dataclass(frozen=True)
class Event:
    """``at`` is in seconds by the system's monotonic clock, which all processes of a machine share."""

    at: float
    driver: str
    what: str
    batch: int | None = None
    epoch: int | None = None
    detail: str = ""


class EventLog:
    """The file. Lines are short and appended in one write each, so several processes may write to it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(
        self, driver: str, what: str, batch: int | None = None, epoch: int | None = None, detail: str = ""
    ) -> float:
        """Append an event that happens now; its time."""
        event = Event(time.monotonic(), driver, what, batch, epoch, detail[:500])
        with self._path.open("ab", buffering=0) as file:
            file.write(json.dumps(asdict(event)).encode() + b"\n")
        return event.at

    def events(self) -> list[Event]:
        """All events so far, in the order of their times."""
        return parse(self._path.read_text()) if self._path.exists() else []


def parse(text: str) -> list[Event]:
    """The events in ``text``; a last line that a killed process did not finish is left out."""
    whole = text[: text.rfind("\n") + 1]
    return sorted((Event(**json.loads(line)) for line in whole.splitlines()), key=lambda event: event.at)


@dataclass(frozen=True)
class TakeOver:
    """How a driver was succeeded: seconds from ``fault`` until the next one led, and until it had published a batch.

    ``epoch`` is that of the next one, None for one that has none.
    """

    fault: Event
    epoch: int | None
    leads_after: float
    publishes_after: float


def take_overs(events: Sequence[Event]) -> list[TakeOver]:
    """One for each pause and kill. Raises ValueError for one that nobody took over from."""
    return [_take_over(fault, events) for fault in events if fault.what in (PAUSED, KILLED)]


def _take_over(fault: Event, events: Sequence[Event]) -> TakeOver:
    later = [event for event in events if event.at > fault.at and event.driver != fault.driver]
    leads = next((event for event in later if event.what == LEADS), None)
    if leads is None:
        raise ValueError(f"nobody took over after {fault.driver} was {fault.what}")
    led = [event for event in later if event.at >= leads.at and event.driver == leads.driver]
    published = next((event for event in led if event.what == PUBLISHED), None)
    if published is None:
        raise ValueError(f"{leads.driver} took over and published nothing")
    return TakeOver(fault, leads.epoch, leads.at - fault.at, published.at - fault.at)


@dataclass(frozen=True)
class Span:
    """One driver's work on one batch, from entering it until ``end``; ``outcome`` is the kind of the event there."""

    driver: str
    batch: int
    start: float
    end: float
    outcome: str

    @property
    def published(self) -> bool:
        """Whether it made the batch visible."""
        return self.outcome == PUBLISHED


def spans(events: Sequence[Event]) -> Iterator[Span]:
    """Each attempt at each batch. One that nothing ended lasts until its driver's last event."""
    for index, began in enumerate(events):
        if began.what != BEGAN or began.batch is None:
            continue
        own = [event for event in events[index:] if event.driver == began.driver]
        end = next((event for event in own if event.what in _ENDS), own[-1])
        yield Span(began.driver, began.batch, began.at, end.at, end.what)

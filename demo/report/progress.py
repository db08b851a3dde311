"""What is printed while a demo runs: a line for each thing that happened, with the seconds since its start."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from demo.timeline import (
    EVALUATED,
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
)

_SENTENCES = {
    STANDBY: "stands by",
    LEADS: "{epoch}",
    HALTED: "stands still in batch {batch}, {detail}",
    PUBLISHED: "published batch {batch}",
    EVALUATED: "ran batch {batch} again for its state; it was published before",
    FENCED: "ended, shut out: {detail}",
    FAILED: "failed: {detail}",
    FINISHED: "finished: the input is used up",
    PAUSED: "is PAUSED (SIGSTOP)",
    WOKEN: "is WOKEN (SIGCONT)",
    KILLED: "is KILLED (SIGKILL)",
    SERVICE_KILLED: "is KILLED (SIGKILL), {detail}",
}
_WIDTH = 110


class Progress:
    """Prints to standard output."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._title = ""
        self._told = 0

    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._start

    def begin(self, title: str) -> None:
        """A new part; the lines of its events are under its title."""
        self._title, self._told = title, 0
        self.say(title.upper())

    def say(self, text: str) -> None:
        """One line, as of now."""
        self._print(time.monotonic(), text)

    def show(self, events: Sequence[Event]) -> None:
        """The events of this part that were not shown yet. ``events`` only grows at its end."""
        for event in events[self._told :]:
            sentence = told(event)
            if sentence:
                self._print(event.at, f"  {sentence}")
        self._told = len(events)

    def _print(self, at: float, text: str) -> None:
        sys.stdout.write(f"{at - self._start:6.1f} s  {text}\n")
        sys.stdout.flush()


def told(event: Event) -> str:
    """One event in words, in one line; empty for one that nobody needs to read."""
    sentence = _SENTENCES.get(event.what)
    if sentence is None:
        return ""
    epoch = f"leads, epoch {event.epoch}" if event.epoch is not None else "begins"
    words = sentence.format(batch=event.batch, detail=" ".join(event.detail.split()), epoch=epoch)
    return f"{event.driver} {words}"[:_WIDTH]

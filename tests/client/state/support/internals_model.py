"""What the state API has to do, in plain Python: dicts of lists, sets and dicts, and nothing that is encoded."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from typing import Any

from milepost.state.dialects.beam import TIMESTAMP_MIN_VALUE, StateNamespace, TimeDomain, TimerData
from milepost.state.dialects.beam.namespaces import WindowNamespace

EMPTY: dict[str, Callable[[], Any]] = {
    "value": lambda: None,
    "bag": list,
    "set": set,
    "map": dict,
    "multimap": dict,
    "ordered list": list,
    "combining": lambda: None,
    "reducing": lambda: None,
    "watermark hold": lambda: None,
}


class Refused(Exception):
    """The model says that the call is wrong."""


class InternalsModel:
    """The state and timers of all keys."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, StateNamespace, str], Any] = {}
        self.timers: dict[tuple[str, StateNamespace, str], TimerData] = {}
        self.watermark = TIMESTAMP_MIN_VALUE
        self.clocks = dict.fromkeys(TimeDomain, TIMESTAMP_MIN_VALUE)

    def copy(self) -> InternalsModel:
        """Return what a version has of this: everything but the clocks."""
        found = InternalsModel()
        found.cells, found.timers, found.watermark = deepcopy(self.cells), dict(self.timers), self.watermark
        return found

    def get(self, place: tuple[str, StateNamespace, str]) -> Any:
        """Return the content of a cell."""
        return self.cells.get(place, EMPTY[place[2]]())

    def set(self, place: tuple[str, StateNamespace, str], content: Any) -> None:
        """Set the content of a cell."""
        self.cells[place] = content
        if content is None or content in ([], set(), {}):
            del self.cells[place]

    def clear(self, key: str, namespace: StateNamespace) -> None:
        """Empty a namespace of a key, with its triggers."""
        self._keep(lambda place: place[0] != key or not place[1].key.startswith(namespace.prefix))

    def clear_windows_before(self, key: str, namespace: WindowNamespace) -> None:
        """Empty the windows of a key that end before one, or with it and start before it."""
        limit = (namespace.window.end, namespace.window.start)

        def stays(place: tuple[str, StateNamespace, str]) -> bool:
            one = place[1]
            return (
                place[0] != key or not isinstance(one, WindowNamespace) or (one.window.end, one.window.start) >= limit
            )

        self._keep(stays)

    def earliest_hold(self, key: str) -> datetime | None:
        """Return the earliest hold of a key."""
        holds = [hold for place, hold in self.cells.items() if place[0] == key and place[2] == "watermark hold"]
        return min(holds, default=None)

    def set_timer(self, key: str, timer: TimerData) -> None:
        """Set a timer."""
        place = (key, timer.namespace, timer.timer_id)
        if place in self.timers and self.timers[place].domain is not timer.domain:
            raise Refused
        self.timers[place] = timer

    def delete_timer(self, key: str, namespace: StateNamespace, timer_id: str) -> None:
        """Delete a timer."""
        self.timers.pop((key, namespace, timer_id), None)

    def advance(self, domain: TimeDomain, to: datetime) -> None:
        """Set a time."""
        if to < self.now(domain):
            raise Refused
        if domain is TimeDomain.EVENT_TIME:
            self.watermark = to
        else:
            self.clocks[domain] = to

    def now(self, domain: TimeDomain) -> datetime:
        """Return a time."""
        return self.watermark if domain is TimeDomain.EVENT_TIME else self.clocks[domain]

    def remove_next(self, domain: TimeDomain, key: str | None) -> tuple[str, TimerData] | None:
        """Remove the next timer of a key, or of all if it is None."""
        due = [
            (timer.timestamp, place[0], timer, place)
            for place, timer in self.timers.items()
            if timer.domain is domain and timer.timestamp < self.now(domain) and key in (None, place[0])
        ]
        if not due:
            return None
        _, whose, timer, place = min(due, key=lambda one: one[:3])
        del self.timers[place]
        return whose, timer

    def _keep(self, stays: Callable[[tuple[str, StateNamespace, str]], bool]) -> None:
        self.cells = {place: content for place, content in self.cells.items() if stays(place)}

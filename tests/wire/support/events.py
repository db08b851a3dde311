"""A stream of events as a client reads it that was written from the wire's description alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Event:
    """What came between two empty lines; a place alone has no type."""

    id: str
    type: str = ""
    data: Any = None

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order."""
        revision, _, index = self.id.partition(".")
        return int(revision), int(index) if index else 2**31


class Stream:
    """An open stream. ``last`` is the last id, also where it came without an event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last = ""
        self._lines = response.iter_lines()

    def block(self) -> Event | None:
        """The next block with an id or a type; None at the end."""
        id_, type_, data = "", "", None
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "id":
                self.last = id_ = value
            elif name == "event":
                type_ = value
            elif name == "data":
                data = json.loads(value)
            elif not line and (id_ or type_):
                return Event(id_, type_, data)
            else:
                assert not line or name in ("", "retry"), line
        return None

    def next(self) -> Event:
        """The next event."""
        while (event := self.block()) is not None:
            if event.type:
                return event
        raise AssertionError("the stream ended")

    def take(self, count: int) -> list[Event]:
        """So many events."""
        return [self.next() for _ in range(count)]


@contextmanager
def watching(
    http: httpx.Client,
    store: str,
    after: str | int | None = None,
    headers: Mapping[str, str] | None = None,
    of: str = "stores",
) -> Iterator[Stream]:
    """Watch a store, or a job with ``of="jobs"``, after a place given by the query."""
    params = {} if after is None else {"after": str(after)}
    with http.stream("GET", f"/v1/{of}/{store}/events", params=params, headers=headers) as response:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, response.text
        yield Stream(response)

"""Clients that watch a store and a job by HTTP alone, and note all that they got.

They are written from the description of the wire, without the SDK: a fault that the SDK hides is seen here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from types import TracebackType
from typing import Any

import httpx

from tests.wire.support.events import Event, Stream

_PAUSE_SECONDS = 0.05
_SILENT_SECONDS = 15.0


@dataclass
class Watcher:
    """A thread that watches ``of`` ("stores" or "jobs") under the name ``name``, and resumes with its last place.

    ``events`` has what it got, in the order in which it got it. ``gaps`` has the places that the service refused as too
    old, each with the revision from which the watcher went on.
    """

    urls: Sequence[str]
    of: str
    name: str
    first: str
    events: list[Event] = field(default_factory=list)
    gaps: list[tuple[str, int]] = field(default_factory=list)
    connections: int = 0
    fault: BaseException | None = None

    def __post_init__(self) -> None:
        self.last = self.first
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def wait_for(self, revision: int, seconds: float) -> None:
        """Wait until the watcher has everything up to a revision. Raises TimeoutError, and the fault that ended it."""
        end = time.monotonic() + seconds
        while int(self.last.partition(".")[0]) < revision:
            if self.fault is not None:
                raise self.fault
            if time.monotonic() > end:
                raise TimeoutError(f"the watcher of {self.of} is at {self.last}, and not at {revision}")
            time.sleep(_PAUSE_SECONDS)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(2 * _SILENT_SECONDS)

    def _run(self) -> None:
        try:
            with httpx.Client(timeout=_SILENT_SECONDS, trust_env=False, follow_redirects=True) as http:
                for url in cycle(self.urls):
                    if self._over.is_set():
                        return
                    try:
                        self._watch(http, f"{url}/v1/{self.of}/{self.name}/events")
                    except httpx.HTTPError:
                        self._over.wait(_PAUSE_SECONDS)
        except BaseException as fault:  # shown to the thread that waits
            self.fault = fault
            raise

    def _watch(self, http: httpx.Client, url: str) -> None:
        with http.stream("GET", url, headers={"Last-Event-ID": self.last}) as response:
            if response.status_code == 410:
                response.read()
                revision = int(response.json()["revision"])
                self.gaps.append((self.last, revision))
                self.last = str(revision)
                return
            if response.status_code != 200:
                self._over.wait(_PAUSE_SECONDS)
                return
            self.connections += 1
            stream = Stream(response)
            while not self._over.is_set():
                event = stream.block()
                if event is None or event.type == "end":
                    return
                if event.type:
                    self.events.append(event)
                self.last = event.id

    @property
    def data(self) -> list[Any]:
        """The data of all events."""
        return [event.data for event in self.events]

"""What happened, event by event: the last of it to be read, all of it as one number to be compared."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable

_KEPT = 250


class Trace:
    """``clock`` gives the time that each event is noted with."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: deque[tuple[object, ...]] = deque(maxlen=_KEPT)
        self.digest = 0
        self.events = 0

    def note(self, what: str, *details: object) -> None:
        """Something happened. ``details`` must be the same whenever the same seed is run."""
        event = (round(self._clock(), 6), what, *details)
        self._last.append(event)
        self.digest = zlib.crc32(repr(event).encode(), self.digest)
        self.events += 1

    def __str__(self) -> str:
        return "\n".join(
            f"{time:12.6f}  {what:<10} {' '.join(map(str, details))}" for time, what, *details in self._last
        )

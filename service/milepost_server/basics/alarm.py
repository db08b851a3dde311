"""One timer of the event loop for the deadlines of many waits, of which nearly all end before their deadline.

A timer for each wait would be set and cancelled for each request, which costs as much as deciding it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Alarm:
    """Calls ``ring`` with the present time once the earliest of the set times has come. ``clock`` gives monotonic
    seconds.

    A time is not taken back: if the wait for it ended earlier, ``ring`` finds nothing to do. It returns the earliest
    time that is still of use, None if there is none. The alarm is set to ``at``, infinity if it is not.
    """

    def __init__(self, clock: Callable[[], float], ring: Callable[[float], float | None]) -> None:
        self._clock = clock
        self._ring = ring
        self.at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at: float) -> None:
        """Ring at the time ``at``, and perhaps before it too."""
        if at < self.at:
            self.end()
            self.at = at
            delay = max(0.0, at - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._rings)

    def end(self) -> None:
        """Forget the set times."""
        if self._timer is not None:
            self._timer.cancel()
        self.at, self._timer = math.inf, None

    def _rings(self) -> None:
        self.at, self._timer = math.inf, None
        following = self._ring(self._clock())
        if following is not None:
            self.set(following)

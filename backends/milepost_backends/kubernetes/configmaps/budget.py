"""Limit the bytes that are written per second, by a token bucket.

etcd keeps what was overwritten for up to ten minutes. Writing a megabyte a second for long fills its quota, and then it
accepts no create or update in the whole cluster any more, Leases of nodes included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

_BURST_SECONDS: Final = 4.0


class ByteBudget:
    """``bytes_per_second`` may be spent in the long run, and four seconds' worth at once. ``clock`` is monotonic."""

    def __init__(self, bytes_per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._most = bytes_per_second * _BURST_SECONDS
        self._left = self._most
        self._as_of = clock()

    @property
    def wait_seconds(self) -> float:
        """Return how long to wait before writing. A write may exceed what is left then: the next one waits for it."""
        self._fill()
        return max(0.0, -self._left / self._rate)

    def take(self, size: int) -> None:
        """Count so many bytes as written, whether there was room for them or not."""
        self._fill()
        self._left -= size

    async def spend(self, size: int) -> None:
        """Count ``size`` bytes as written, and wait until they may be; a caller that is cancelled has spent none."""
        seconds = self.wait_seconds
        self.take(size)
        if seconds > 0:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self.take(-size)
                raise

    def _fill(self) -> None:
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._as_of) * self._rate)
        self._as_of = now

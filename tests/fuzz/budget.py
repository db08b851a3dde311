"""How much is tried: so many requests, and for so long."""

from __future__ import annotations

import time


class Budget:
    """Counts requests. After ``seconds`` it is spent, and what is not tried yet is left out."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.taken = 0

    def take(self) -> None:
        """One more."""
        self.taken += 1

    @property
    def is_spent(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end

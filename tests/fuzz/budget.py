"""How much is tried: so many requests, and for so long."""

from __future__ import annotations

import time


class TimeUp(Exception):
    """What is not tried yet is left out."""


class Budget:
    """Counts requests, and says when the ``seconds`` for them are over, which count from the first."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began: float | None = None
        self.taken = 0

    def take(self) -> None:
        """One more. Raises `TimeUp`."""
        if self._began is None:
            self._began = time.monotonic()
        if self.is_over:
            raise TimeUp
        self.taken += 1

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self._began is not None and time.monotonic() >= self._began + self._seconds

"""Decides whether a job that failed is started again, and after what pause."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Restarts:
    """At most ``most`` starts again within any ``within`` seconds, after pauses that double from ``first`` on."""

    most: int
    within: float
    first: float = 1.0
    longest: float = 60.0
    _failures: deque[float] = field(default_factory=deque)

    def after_failure(self, now: float) -> float | None:
        """Count a failure; return the pause before the next start, or None if there is to be none."""
        while self._failures and self._failures[0] <= now - self.within:
            self._failures.popleft()
        if len(self._failures) >= self.most:
            return None
        self._failures.append(now)
        return min(self.longest, self.first * 2.0 ** min(len(self._failures) - 1, 60))

    @property
    def count(self) -> int:
        """How many failures count at present."""
        return len(self._failures)

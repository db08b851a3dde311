"""The time of one call of the registry, which the requests that it takes share."""

from __future__ import annotations

from milepost.core.clock import monotonic


class Budget:
    """``timeout`` seconds, from now on; with None each request has the client's timeout for itself."""

    def __init__(self, timeout: float | None = None) -> None:
        self._until = None if timeout is None else monotonic() + timeout

    @property
    def left(self) -> float | None:
        """Seconds that the next request may take; None leaves that to the client."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    def at_most(self, seconds: float) -> float:
        """Return what is left, but no more than ``seconds``."""
        left = self.left
        return seconds if left is None else min(seconds, left)

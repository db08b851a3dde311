"""The lease that a leader holds on its journal."""

from __future__ import annotations

from collections.abc import Callable

from backends.contract import Leadership


class LeadershipLost(Exception):
    """Raised when the lease is over or another leader took the journal over: this process must stop leading."""


class NotTakenOver(LeadershipLost):
    """Raised when the lease holds, but taking the journal over failed for so long that another replica should try."""


class LeaderLease:
    """The lease under which this process leads the journal; ``leadership`` is None while it does not lead.

    ``clock`` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.leadership: Leadership | None = None
        self._clock = clock

    def holds(self) -> bool:
        """Return whether answers may be given from memory."""
        return self.leadership is not None and self.leadership.remaining(self._clock()) > 0

    def remaining(self) -> float | None:
        """Return the seconds that the lease still runs, infinite if it ends with the process; None without one."""
        return None if self.leadership is None else max(0.0, self.leadership.remaining(self._clock()))

    def require(self, leadership: Leadership) -> None:
        """Raise `LeadershipLost` unless the lease of ``leadership`` still runs. Call it after each take-over.

        A process that was paused during a take-over may have taken the journal from its own successor, which still
        answers from memory. If the lease held at some moment after the take-over, the take-over of any successor comes
        later, and fences everything that is written under this term. No other check is needed.
        """
        if leadership.remaining(self._clock()) <= 0:
            raise LeadershipLost("the lease ran out while the journal was taken over")

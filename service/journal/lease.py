"""The lease that a leader holds on its journal."""

from __future__ import annotations

from collections.abc import Callable

from backends.contract import Leadership


class LeadershipLost(Exception):
    """The lease is over, or another leader took the journal: this process does not lead any more."""


class NotTakenOver(LeadershipLost):
    """The lease holds, but the journal could not be taken over for so long that another should try."""


class LeaderLease:
    """The ``leadership`` under which the journal is led, None while it is not. ``clock`` gives monotonic seconds."""

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
        """Raise `LeadershipLost` unless the lease of ``leadership`` still runs. To be asked after each take-over.

        Whoever paused on the way there may have taken the journal from a successor, which still answers from memory. If
        the lease held at some moment after the take-over, any successor's take-over comes later, and fences all that is
        written under this term. Nothing else is needed.
        """
        if leadership.remaining(self._clock()) <= 0:
            raise LeadershipLost("the lease ran out while the journal was taken over")

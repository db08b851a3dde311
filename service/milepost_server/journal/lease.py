"""The lease of a leader: while it runs, no other replica leads, so the leader may answer from memory."""

from __future__ import annotations

from collections.abc import Callable

from milepost_backends.contract import Leadership


class LeadershipLost(Exception):
    """Raised when this process must stop leading.

    Usually its lease has ended, or another replica has taken the journal over.
    """


class NotTakenOver(LeadershipLost):
    """Raised when this process stops leading although its lease still runs.

    It has failed to take the journal over for so long that another replica should try.
    """


class LeaderLease:
    """The lease under which this process leads the journal.

    ``leadership`` is the won election that the lease comes from. `Journal` sets it once the journal is taken over and
    loaded; it is None while this process does not lead. ``clock`` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._leadership: Leadership | None = None
        self._since = 0.0
        self._clock = clock

    @property
    def leadership(self) -> Leadership | None:
        """The won election under which this process leads; None while it does not lead."""
        return self._leadership

    @leadership.setter
    def leadership(self, leadership: Leadership | None) -> None:
        self._leadership = leadership
        self._since = self._clock()

    def held_for(self) -> float | None:
        """Return for how many seconds this process has led; None if it does not lead."""
        return self._clock() - self._since if self.holds() else None

    def holds(self) -> bool:
        """Return whether the lease surely runs now, so that answers may be given from memory."""
        leadership = self._leadership
        return leadership is not None and leadership.remaining(self._clock()) > 0

    def remaining(self) -> float | None:
        """Return for how many more seconds the lease runs; None if this process does not lead.

        The result is infinite if the lease lasts as long as the process, like a lock on a file.
        """
        return None if self.leadership is None else max(0.0, self.leadership.remaining(self._clock()))

    def require(self, leadership: Leadership) -> None:
        """Raise `LeadershipLost` unless the lease of ``leadership`` still runs. Called after each take-over.

        It protects against a pause of this process before its take-over was committed. During the pause the lease may
        have run out, and another replica may have taken the journal over. The late commit then takes the journal away
        from that replica, which still answers from memory. But if the lease still runs after the take-over, no other
        replica leads: a later leader takes over under a higher term, which fences all writes of this term. No other
        check is needed.
        """
        if leadership.remaining(self._clock()) <= 0:
            raise LeadershipLost("the lease ran out while the journal was taken over")

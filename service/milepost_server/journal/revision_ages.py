"""The ages of revisions: which revision was already committed a given time ago under this leadership."""

from __future__ import annotations

from bisect import bisect_right


class RevisionAges:
    """A history of which revision was current at which time: one entry each ``step`` seconds, and always the latest.

    The latest is always kept, since perhaps no other revision follows it. Entries older than ``keep`` seconds are
    forgotten. A new leader knows nothing about the time before its leadership, so nothing counts as old until it has
    led for that long itself. If an age is wrong, it is too low, so that records are kept too long and never too short.
    """

    def __init__(self, keep: float, step: float = 5.0) -> None:
        self._keep = keep
        self._step = step
        self._times: list[float] = []
        self._revisions: list[int] = []

    def note(self, now: float, revision: int) -> None:
        """Note that ``revision`` is committed at ``now`` (monotonic seconds)."""
        if len(self._times) > 1 and now - self._times[-2] < self._step:
            self._times.pop()
            self._revisions.pop()
        self._times.append(now)
        self._revisions.append(revision)
        stale = bisect_right(self._times, now - self._keep - self._step) - 1
        if stale > 0:
            del self._times[:stale], self._revisions[:stale]

    def before(self, time: float) -> int:
        """Return the latest noted revision that was committed at or before the monotonic ``time``, else 0."""
        index = bisect_right(self._times, time) - 1
        return self._revisions[index] if index >= 0 else 0

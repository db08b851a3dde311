"""Ages as revisions: which revision was already committed so many seconds ago, under this leadership."""

from __future__ import annotations

from bisect import bisect_right


class RevisionAges:
    """Remembers, once a ``step``, which revision was current when, and the latest always: nothing may follow it.

    A new leader knows nothing about the time before it, so nothing counts as old until it has led that long itself:
    ages are only ever overestimated towards keeping.
    """

    def __init__(self, keep: float, step: float = 5.0) -> None:
        self._keep = keep
        self._step = step
        self._times: list[float] = []
        self._revisions: list[int] = []

    def note(self, now: float, revision: int) -> None:
        """``revision`` is committed at ``now`` (monotonic seconds)."""
        if len(self._times) > 1 and now - self._times[-2] < self._step:
            self._times.pop()
            self._revisions.pop()
        self._times.append(now)
        self._revisions.append(revision)
        stale = bisect_right(self._times, now - self._keep - self._step) - 1
        if stale > 0:
            del self._times[:stale], self._revisions[:stale]

    def before(self, context: float) -> int:
        """A revision that was committed at or before ``context``; 0 where that is not known."""
        index = bisect_right(self._times, context) - 1
        return self._revisions[index] if index >= 0 else 0

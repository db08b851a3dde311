"""Remember what one replica has seen of the Lease, and since when it has not changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from milepost_backends.kubernetes.election.lease import Lease

log = logging.getLogger("milepost.election")

_MOST_SECONDS: Final = 3600.0
"""This is the longest lease that an address accepts; if a Lease says more, somebody edited it."""


class LeaseObserver:
    """The Lease, as it was last seen. All times are monotonic seconds of this machine.

    A holder is over when its Lease has not changed for as long as the Lease says, counted from when we first saw it so:
    what we saw was sent before that, and the holder counts from before it sent it. ``least_seconds`` is the shortest
    time that we wait, whatever the Lease says, so that nobody can shorten a live holder's lease by an edit.

    If a Lease that was seen held is gone, or has no holder without having been released, its holder did not do that,
    and still leads for as long as before. Such a Lease is free that long after it was first seen so.
    """

    def __init__(self, name: str, least_seconds: float, clock: Callable[[], float]) -> None:
        self._name = name
        self._least_seconds = least_seconds
        self._clock = clock
        self._lease: Lease | None = None
        self._since = float("-inf")
        self._asked = float("-inf")
        self._held: Lease | None = None
        """The Lease when it was last seen held, unless its holder has released it since."""
        self._missing_since: float | None = None
        """The time when its holder was first seen missing."""

    def note(self, lease: Lease | None, asked: float) -> None:
        """Note a Lease that was read or written by a request sent at ``asked``, unless a later one was noted."""
        if asked < self._asked:
            return
        before, self._lease, self._asked = self._lease, lease, asked
        now = self._clock()
        if lease is None or before is None or lease.version != before.version:
            self._since = now
            if lease is not None and lease.seconds > _MOST_SECONDS:
                log.error("somebody set the Lease to last %g s; waiting %g s at most", lease.seconds, _MOST_SECONDS)
        if lease is not None and lease.holder:
            self._held, self._missing_since = lease, None
        elif self._is_released(lease):
            self._held, self._missing_since = None, None
        elif self._held is not None and self._missing_since is None:
            self._missing_since = now
            log.error(
                "somebody %s; this replica waits as long as its holder may still lead: %s",
                "deleted the Lease" if lease is None else "took the holder out of the Lease",
                self._held.holder,
            )

    def age(self) -> float:
        """Return the seconds since the last look was begun."""
        return self._clock() - self._asked

    def wait(self, lease: Lease | None) -> float:
        """Return the seconds until ``lease`` may be taken if it does not change.

        The result is 0 for a Lease that was released, or never seen held. A Lease that differs from what was last seen
        counts as seen now: its holder may have renewed it a moment ago.
        """
        now = self._clock()
        if lease is not None and lease.holder:
            same = self._lease is not None and self._lease.version == lease.version
            return max(0.0, (self._since if same else now) + self._seconds(lease) - now)
        if self._held is None or self._is_released(lease):
            return 0.0
        since = now if self._missing_since is None else self._missing_since
        return max(0.0, since + self._seconds(self._held) - now)

    def leader(self) -> str | None:
        """Return the advertised URL of the holder, unless it is over."""
        if self._lease is None or not self._lease.belongs_to(self._name):
            return None
        return self._lease.advertised if self.wait(self._lease) > 0 else None

    def _is_released(self, lease: Lease | None) -> bool:
        """Return whether the holder last seen released it; an earlier holder's mark may be in a restored copy."""
        return self._held is not None and lease is not None and lease.released_by == self._held.holder

    def _seconds(self, lease: Lease) -> float:
        return min(max(lease.seconds, self._least_seconds), _MOST_SECONDS)

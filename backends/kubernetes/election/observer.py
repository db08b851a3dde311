"""What one replica has seen of the Lease, and for how long it has stood like that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from backends.kubernetes.election.lease import Lease

log = logging.getLogger("milepost.election")

_MOST_SECONDS: Final = 3600.0
"""The longest lease that an address takes; a Lease that says more says so by another hand."""


class LeaseObserver:
    """The Lease as it was last seen. All times are monotonic seconds of this machine.

    A holder is over when its Lease has not changed for as long as it says, counted from when we first saw it so: what
    we saw was sent before that, and the holder counts from before it sent it. ``least_seconds`` is the shortest time
    that we wait, whatever the Lease says, so that nobody can shorten a live holder's by an edit.

    A Lease that was seen held and is gone, or has lost its holder without having been released, was not let go of by
    its holder, who is as certain as before: it is free that long after it was first seen so.
    """

    def __init__(self, name: str, least_seconds: float, clock: Callable[[], float]) -> None:
        self._name = name
        self._least_seconds = least_seconds
        self._clock = clock
        self._lease: Lease | None = None
        self._since = float("-inf")
        self._asked = float("-inf")
        self._held: Lease | None = None
        """As it was when it was last seen held, unless its holder has released it since."""
        self._missing_since: float | None = None
        """When its holder was first seen missing."""

    def note(self, lease: Lease | None, asked: float) -> None:
        """It was read now, or written, by a request sent at ``asked``, unless a later one has overtaken that."""
        if asked < self._asked:
            return
        before, self._lease, self._asked = self._lease, lease, asked
        now = self._clock()
        if lease is None or before is None or lease.version != before.version:
            self._since = now
            if lease is not None and lease.seconds > _MOST_SECONDS:
                log.error("the Lease lasts %g s, by another hand: waiting for %g at most", lease.seconds, _MOST_SECONDS)
        if lease is not None and lease.holder:
            self._held, self._missing_since = lease, None
        elif self._is_released(lease):
            self._held, self._missing_since = None, None
        elif self._held is not None and self._missing_since is None:
            self._missing_since = now
            log.error(
                "the Lease is %s, by another hand than its holder's, who is waited for: %s",
                "gone" if lease is None else "without a holder",
                self._held.holder,
            )

    def age(self) -> float:
        """Seconds since the last look was begun."""
        return self._clock() - self._asked

    def wait(self, lease: Lease | None) -> float:
        """Seconds until ``lease`` may be taken if it does not change; 0 for one that was released, or never seen held.

        One that is not what was last seen counts as seen now: its holder may have renewed it a moment ago.
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
        """The advertised URL of the holder, unless it is over."""
        if self._lease is None or not self._lease.belongs_to(self._name):
            return None
        return self._lease.advertised if self.wait(self._lease) > 0 else None

    def _is_released(self, lease: Lease | None) -> bool:
        """By whom it was last seen held by; a mark of an earlier one may come from a copy that somebody put back."""
        return self._held is not None and lease is not None and lease.released_by == self._held.holder

    def _seconds(self, lease: Lease) -> float:
        return min(max(lease.seconds, self._least_seconds), _MOST_SECONDS)

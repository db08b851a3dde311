"""What one replica has seen of the Lease, and for how long it has stood like that."""

from __future__ import annotations

from collections.abc import Callable

from backends.elections.kubernetes_lease import Lease


class Sight:
    """The Lease as it was last seen. All times are monotonic seconds of this machine.

    A holder is over when its Lease has not changed for as long as it says, counted from when we first saw it so: what
    we saw was sent before that, and the holder counts from before it sent it. ``least_seconds`` is the shortest time
    that we wait, whatever the Lease says, so that nobody can shorten a live holder's by an edit.
    """

    def __init__(self, name: str, least_seconds: float, clock: Callable[[], float]) -> None:
        self._name = name
        self._least_seconds = least_seconds
        self._clock = clock
        self._lease: Lease | None = None
        self._since = float("-inf")
        self._asked = float("-inf")

    def note(self, lease: Lease | None, asked: float) -> None:
        """It was read now, or written, by a request sent at ``asked``, unless a later one has overtaken that."""
        if asked < self._asked:
            return
        before, self._lease, self._asked = self._lease, lease, asked
        if lease is None or before is None or lease.version != before.version:
            self._since = self._clock()

    def age(self) -> float:
        """Seconds since the last look was begun."""
        return self._clock() - self._asked

    def wait(self, lease: Lease | None) -> float:
        """Seconds until ``lease`` may be taken if it does not change; 0 for one that is free or gone.

        One that is not what was last seen counts as seen now: its holder may have renewed it a moment ago.
        """
        if lease is None or not lease.holder:
            return 0.0
        now = self._clock()
        same = self._lease is not None and self._lease.version == lease.version
        return max(0.0, (self._since if same else now) + max(lease.seconds, self._least_seconds) - now)

    def leader(self) -> str | None:
        """The advertised URL of the holder, unless it is over."""
        if self._lease is None or not self._lease.belongs_to(self._name):
            return None
        return self._lease.advertised if self.wait(self._lease) > 0 else None

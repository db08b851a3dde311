"""A queue of keys sorted by their deadlines, so that due keys are found without examining all keys."""

from __future__ import annotations

from typing import Generic, TypeVar

from sortedcontainers import SortedList

K = TypeVar("K", str, tuple[str, str])


class DeadlineQueue(Generic[K]):
    """A set of keys, each with a deadline in monotonic seconds.

    The leader keeps the deadlines of sessions in such a queue, and each keepalive postpones one. So postponing must be
    cheap: the key first keeps its place in the order, and is moved only when its earlier deadline comes.
    """

    def __init__(self) -> None:
        self._order: SortedList[tuple[float, K]] = SortedList()
        self._placed: dict[K, float] = {}
        self._later: dict[K, float] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._placed

    def __len__(self) -> int:
        return len(self._placed)

    def get(self, key: K) -> float | None:
        """Return the deadline of the key; None if the queue does not contain it."""
        return self._later.get(key, self._placed.get(key))

    def set(self, key: K, at: float) -> None:
        """Set the deadline of the key to ``at``, and replace any deadline that the key had."""
        placed = self._placed.get(key)
        if placed is not None and placed <= at:
            self._later[key] = at
            return
        if placed is not None:
            self.discard(key)
        self._order.add((at, key))
        self._placed[key] = at

    def discard(self, key: K) -> None:
        """Remove the key, if the queue contains it."""
        placed = self._placed.pop(key, None)
        if placed is not None:
            self._order.remove((placed, key))
            self._later.pop(key, None)

    def clear(self) -> None:
        """Remove all keys."""
        self._order = SortedList()
        self._placed, self._later = {}, {}

    def take(self, now: float, most: int) -> list[K]:
        """Remove and return keys that are due at ``now``. At most ``most`` keys are examined; more keys may be due."""
        found: list[K] = []
        for _ in range(most):
            if not self.waiting(now):
                break
            _, key = self._order[0]
            later = self._later.get(key)
            self.discard(key)
            if later is not None and later > now:
                self.set(key, later)
            else:
                found.append(key)
        return found

    def waiting(self, now: float) -> bool:
        """Return whether a key may be due at ``now``, so that `take` should be called. Also true for a key that was
        postponed but keeps its earlier place in the order.
        """
        return bool(self._order) and self._order[0][0] <= now

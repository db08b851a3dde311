"""Keys that have a time each: those whose time has come are found without looking at the others."""

from __future__ import annotations

from typing import Generic, TypeVar

from sortedcontainers import SortedList

K = TypeVar("K", str, tuple[str, str])


class Due(Generic[K]):
    """Times are monotonic seconds.

    Putting a time off, as each keepalive does, costs next to nothing: the key stays where it stood in the order until
    that time has come, and is put where it belongs then.
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
        """When the key is due."""
        return self._later.get(key, self._placed.get(key))

    def set(self, key: K, at: float) -> None:
        """The key is due then, whatever was said before."""
        placed = self._placed.get(key)
        if placed is not None and placed <= at:
            self._later[key] = at
            return
        if placed is not None:
            self.discard(key)
        self._order.add((at, key))
        self._placed[key] = at

    def discard(self, key: K) -> None:
        """The key is not due any more, if it was."""
        placed = self._placed.pop(key, None)
        if placed is not None:
            self._order.remove((placed, key))
            self._later.pop(key, None)

    def clear(self) -> None:
        """Nothing is due any more."""
        self._order = SortedList()
        self._placed, self._later = {}, {}

    def take(self, now: float, most: int) -> list[K]:
        """Keys that are due, which they are not any more then; as many as are found in ``most`` steps."""
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
        """Whether `take` has anything to do."""
        return bool(self._order) and self._order[0][0] <= now

"""A dict that can iterate a range of its keys in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from sortedcontainers import SortedList

V = TypeVar("V")


class SortedMap(Generic[V]):
    """Keys and values, where the order of the keys is found only once somebody asks for it, and kept from then on."""

    def __init__(self) -> None:
        self.values: dict[bytes, V] = {}
        self._order: SortedList | None = None

    def __len__(self) -> int:
        return len(self.values)

    def set(self, key: bytes, value: V) -> None:
        """Set the value of a key."""
        if self._order is not None and key not in self.values:
            self._order.add(key)
        self.values[key] = value

    def discard(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        if self.values.pop(key, None) is not None and self._order is not None:
            self._order.remove(key)

    def update(self, pairs: Iterable[tuple[bytes, V]]) -> None:
        """Set many values, which may make the order unknown again."""
        self._order = None
        self.values.update(pairs)

    def keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Iterate the keys from one on and before another, in order. The map must stay as it is meanwhile."""
        if self._order is None:
            self._order = SortedList(self.values)
        return iter(self._order.irange(start, end, inclusive=(True, False)))

"""The uncommitted changes of a store, and its loaded version seen through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from milepost.state.store.rows import Op, Row, Update, fold, outcome
from milepost.state.store.sorted_map import SortedMap, View

_Pending = tuple[int, "bytes | list[bytes]"]
"""An update whose value may still be in pieces, because joining them at each append would take longer each time."""


class Overlay:
    """The uncommitted updates: at most one for each key, which combines all its changes so far."""

    def __init__(self) -> None:
        self._map: SortedMap[_Pending] = SortedMap()

    def __len__(self) -> int:
        return len(self._map)

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._map.set(key, (Op.PUT, value))

    def remove(self, key: bytes) -> None:
        """Remove a key."""
        self._map.set(key, (Op.REMOVE, b""))

    def append(self, key: bytes, value: bytes) -> None:
        """Append to the value of a key."""
        self._map.to_change(key)  # called first, since it may join the pieces
        pending = self._map.values.get(key)
        if pending is None:
            self._map.set(key, (Op.APPEND, value))
        elif isinstance(pending[1], list):
            pending[1].append(value)
        elif pending[0] == Op.REMOVE:
            self._map.set(key, fold((Op.REMOVE, b""), (Op.APPEND, value)))
        else:
            self._map.set(key, (pending[0], [pending[1], value]))

    def get(self, key: bytes) -> Update | None:
        """Return the update of a key, None if it has none."""
        pending = self._map.values.get(key)
        if pending is None:
            return None
        op, value = pending
        if isinstance(value, bytes):
            return op, value
        joined = b"".join(value)
        self._map.values[key] = op, joined
        return op, joined

    def view(self, start: bytes, end: bytes | None) -> View[Update]:
        """Return the present updates of a range of keys, sorted; later changes do not affect the result."""
        return self._map.view(start, end, self.get)

    def all_rows(self) -> Iterator[Row]:
        """Iterate over all updates, sorted."""
        return ((key, *update) for key in sorted(self._map.values) if (update := self.get(key)))

    def drop(self, prefix: bytes) -> None:
        """Discard the updates of the keys that begin with a prefix."""
        for key in [key for key in self._map.values if key.startswith(prefix)]:
            self._map.discard(key)


def merged_view(pairs: Iterator[tuple[bytes, bytes]], changes: Iterable[Row]) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the pairs with the changes applied."""
    pair = next(pairs, None)
    for key, op, new in changes:
        while pair is not None and pair[0] < key:
            yield pair
            pair = next(pairs, None)
        before = None
        if pair is not None and pair[0] == key:
            before = pair[1]
            pair = next(pairs, None)
        value = outcome(before, (op, new))
        if value is not None:
            yield key, value
    while pair is not None:
        yield pair
        pair = next(pairs, None)

"""The changes of a store that are not committed yet, and what is loaded, seen through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from milepost.state.store.rows import Op, Row, Update, fold, outcome
from milepost.state.store.sorted_map import SortedMap, View

_Pending = tuple[int, "bytes | list[bytes]"]
"""An update whose value may still be in pieces: joining them for each append would take longer with each."""


class Overlay:
    """At most one update for each key: what all changes of it so far come to."""

    def __init__(self) -> None:
        self._map: SortedMap[_Pending] = SortedMap()

    def __len__(self) -> int:
        return len(self._map)

    def put(self, key: bytes, value: bytes) -> None:
        """Let a key have this value."""
        self._map.set(key, (Op.PUT, value))

    def remove(self, key: bytes) -> None:
        """Let a key be gone."""
        self._map.set(key, (Op.REMOVE, b""))

    def append(self, key: bytes, value: bytes) -> None:
        """Add to the value of a key."""
        self._map.to_change(key)  # which may put the pieces together, so it comes first
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
        """Return what was done to a key, None if nothing was."""
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
        """Return the updates of a range of keys, sorted, as they are now, whatever changes later."""
        return self._map.view(start, end, self.get)

    def all_rows(self) -> Iterator[Row]:
        """Iterate all updates, sorted."""
        return ((key, *update) for key in sorted(self._map.values) if (update := self.get(key)))

    def drop(self, prefix: bytes) -> None:
        """Forget what was done to the keys that begin with a prefix."""
        for key in [key for key in self._map.values if key.startswith(prefix)]:
            self._map.discard(key)


def merged_view(pairs: Iterator[tuple[bytes, bytes]], changes: Iterable[Row]) -> Iterator[tuple[bytes, bytes]]:
    """Iterate the pairs as they are once the changes are made."""
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

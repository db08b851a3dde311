"""Sorted pairs, seen through sorted changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from milepost.state.store.updates import Row, outcome


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

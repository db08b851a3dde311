"""Where state lies: a `StateTable`, which each `StateStore` is, and `HeapTable`, which keeps it in memory alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from milepost.state.store.contract.stores import Pairs
from milepost.state.store.rows import after_prefix
from milepost.state.store.sorted_map import SortedMap


class StateTable(Protocol):
    """Bytes under keys that sort, in column families: the part of the contract of `StateStore` that state needs.

    A family has one value for each key, or a list of them. Iterators show what was there when they were asked for.
    """

    def create_column_family_if_absent(self, family: str, *, multiple_values_per_key: bool = ...) -> None:
        """Make sure that there is a column family of this kind."""

    def get(self, key: bytes, family: str = ...) -> bytes | None:
        """Return the one value of a key, or None."""

    def multi_get(self, keys: Sequence[bytes], family: str = ...) -> list[bytes | None]:
        """Return the one value of each key, in their order."""

    def key_exists(self, key: bytes, family: str = ...) -> bool:
        """Say whether there is a key, in a family of either kind."""

    def values_iterator(self, key: bytes, family: str = ...) -> Iterator[bytes]:
        """Iterate the values of a key in the order they were added."""

    def prefix_scan(self, prefix: bytes, family: str = ...) -> Pairs:
        """Iterate the keys that begin with a prefix and the one value of each, sorted."""

    def range_scan(self, start: bytes | None, end: bytes | None, family: str = ...) -> Pairs:
        """Iterate the keys from ``start`` on and before ``end`` and the one value of each, sorted."""

    def range_scan_with_multi_values(self, start: bytes | None, end: bytes | None, family: str = ...) -> Pairs:
        """Iterate the same range with each of the values of a key."""

    def put(self, key: bytes, value: bytes, family: str = ...) -> None:
        """Set the one value of a key."""

    def merge(self, key: bytes, value: bytes, family: str = ...) -> None:
        """Add a value behind those of a key, without reading them."""

    def remove(self, key: bytes, family: str = ...) -> None:
        """Remove a key, if it is there."""

    def delete_range(self, start: bytes | None, end: bytes | None, family: str = ...) -> None:
        """Remove the keys from ``start`` on and before ``end``; None leaves an end open."""


class HeapTable:
    """A table in memory, which ends with the process (Gearpump's ``HeapStateInternals``).

    It is for tests, for batches, and for state that can be made anew. It belongs to one thread.
    """

    def __init__(self) -> None:
        self._families: dict[str, SortedMap[list[bytes]]] = {}

    def create_column_family_if_absent(self, family: str, *, multiple_values_per_key: bool = False) -> None:
        del multiple_values_per_key  # a list has room for one value as well
        self._families.setdefault(family, SortedMap())

    def get(self, key: bytes, family: str = "") -> bytes | None:
        found = self._families[family].values.get(key)
        return found[0] if found else None

    def multi_get(self, keys: Sequence[bytes], family: str = "") -> list[bytes | None]:
        return [self.get(key, family) for key in keys]

    def key_exists(self, key: bytes, family: str = "") -> bool:
        return key in self._families[family].values

    def values_iterator(self, key: bytes, family: str = "") -> Iterator[bytes]:
        return iter(list(self._families[family].values.get(key, ())))

    def prefix_scan(self, prefix: bytes, family: str = "") -> Pairs:
        return self.range_scan(prefix, after_prefix(prefix), family)

    def range_scan(self, start: bytes | None, end: bytes | None, family: str = "") -> Pairs:
        return self.range_scan_with_multi_values(start, end, family)

    def range_scan_with_multi_values(self, start: bytes | None, end: bytes | None, family: str = "") -> Pairs:
        found = self._families[family]

        def read(key: bytes) -> tuple[bytes, ...] | None:
            values = found.values.get(key)
            return None if values is None else tuple(values)

        return ((key, value) for key, values in found.view(start or b"", end, read) for value in values)

    def put(self, key: bytes, value: bytes, family: str = "") -> None:
        self._families[family].set(key, [value])

    def merge(self, key: bytes, value: bytes, family: str = "") -> None:
        found = self._families[family]
        if key in found.values:
            found.to_change(key)
            found.values[key].append(value)
        else:
            found.set(key, [value])

    def remove(self, key: bytes, family: str = "") -> None:
        self._families[family].discard(key)

    def delete_range(self, start: bytes | None, end: bytes | None, family: str = "") -> None:
        found = self._families[family]
        for key in list(found.keys(start or b"", end)):
            found.discard(key)

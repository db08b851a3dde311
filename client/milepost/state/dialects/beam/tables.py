"""The tables in which Beam state and timers are kept: each `StateStore` is a `StateTable`, and a `HeapTable` is in
memory. Also helpers for the keys in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from milepost.state.coders import Coder
from milepost.state.coders.framing import write_escaped
from milepost.state.errors import NotDeterministic
from milepost.state.store.contract.stores import Pairs
from milepost.state.store.rows import after_prefix
from milepost.state.store.sorted_map import SortedMap

K = TypeVar("K")
R = TypeVar("R")


class StateTable(Protocol):
    """Sorted keys and values as bytes, in column families: the part of the contract of `StateStore` that cells and
    timers need. A column family has one value for each key, or a list of values for each key. An iterator shows the
    content at the time of its creation.
    """

    def create_column_family_if_absent(self, family: str, *, multiple_values_per_key: bool = ...) -> None:
        """Create a column family, unless it exists: a family of lists if ``multiple_values_per_key``, else of single
        values.
        """

    def get(self, key: bytes, family: str = ...) -> bytes | None:
        """Return the single value of a key, None if the key is absent."""

    def multi_get(self, keys: Sequence[bytes], family: str = ...) -> list[bytes | None]:
        """Return the single value of each key in the order of ``keys``, None for an absent key."""

    def key_exists(self, key: bytes, family: str = ...) -> bool:
        """Return whether a key exists, in a column family of single values or of lists."""

    def values_iterator(self, key: bytes, family: str = ...) -> Iterator[bytes]:
        """Iterate over the list of a key, in the order in which its values were added."""

    def prefix_scan(self, prefix: bytes, family: str = ...) -> Pairs:
        """Iterate over the keys that begin with a prefix and the single value of each, sorted."""

    def range_scan(self, start: bytes | None, end: bytes | None, family: str = ...) -> Pairs:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, sorted, with their single values;
        None leaves an end open.
        """

    def range_scan_with_multi_values(self, start: bytes | None, end: bytes | None, family: str = ...) -> Pairs:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, in a column family of lists: a key
        comes once for each value of its list, with that value.
        """

    def put(self, key: bytes, value: bytes, family: str = ...) -> None:
        """Set the single value of a key."""

    def merge(self, key: bytes, value: bytes, family: str = ...) -> None:
        """Append a value to the list of a key, without reading the list."""

    def remove(self, key: bytes, family: str = ...) -> None:
        """Remove a key, if it exists."""

    def delete_range(self, start: bytes | None, end: bytes | None, family: str = ...) -> None:
        """Remove the keys from ``start`` up to, but not including, ``end``; None leaves an end open."""


class HeapTable:
    """A table in memory, which ends with the process (Gearpump's ``HeapStateInternals``). Use it for tests, for
    batches, and for state that can be computed again. It belongs to one thread.
    """

    def __init__(self) -> None:
        self._families: dict[str, SortedMap[list[bytes]]] = {}

    def create_column_family_if_absent(self, family: str, *, multiple_values_per_key: bool = False) -> None:
        del multiple_values_per_key  # here each key has a list, also for a single value
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


def check_deterministic(coder: Coder[Any], what: str) -> None:
    """Raise `NotDeterministic` if the coder may encode equal values differently. ``what`` names the values."""
    if not coder.deterministic:
        raise NotDeterministic(f"{what} must have a deterministic coder, which {type(coder).__name__} is not")


class PerKey(Generic[K, R]):
    """Makes one object for each key, and returns the same object as long as a caller holds a reference to it."""

    def __init__(self, coder: Coder[K], make: Callable[[K, bytes], R]) -> None:
        """``make`` makes the object for a key and the key's prefix, the bytes with which all rows of the key begin.
        Raises `NotDeterministic` for a coder that may encode equal keys differently.
        """
        check_deterministic(coder, "the keys of state")
        self.coder = coder
        self._make = make
        self._known: WeakValueDictionary[bytes, R] = WeakValueDictionary()

    def get(self, key: K) -> R:
        """Return the object of a key. Raises `CoderError` for a key that the coder refuses."""
        prefix = write_escaped(self.coder.encode(key))
        found = self._known.get(prefix)
        if found is None:
            found = self._known[prefix] = self._make(key, prefix)
        return found

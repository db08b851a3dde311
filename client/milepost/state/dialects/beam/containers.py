"""Cells with many values: bags, ordered lists, sets, maps and multimaps. Each element of a set and each entry of a map
is a key of the table, so using one of them reads one key. Adding to a bag, an ordered list or a multimap writes only
the new value and reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Generic, TypeVar

from milepost.state.cells.states import Entries
from milepost.state.coders import Coder, TimestampCoder
from milepost.state.dialects.beam.cells import Cell, GroupingState, ReadableState, State, View

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class BagState(GroupingState[T, Iterator[T]]):
    """Values in the order in which they were added, like Flink's ``ListState`` (Beam's ``BagState`` has no order)."""

    def __init__(self, cell: Cell, coder: Coder[T]) -> None:
        self._cell = cell
        self._coder = coder

    def read(self) -> Iterator[T]:
        """Iterate over the present values (Beam's ``read``)."""
        return map(self._coder.decode, self._cell.values())

    def add(self, value: T) -> None:
        self._cell.append(self._coder.encode(value))

    def clear(self) -> None:
        self._cell.remove()

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.is_absent()


@dataclass(frozen=True)
class TimestampedValue(Generic[T]):
    """A value at a point in time (Beam's ``TimestampedValue``)."""

    value: T
    timestamp: datetime


class OrderedListState(GroupingState[TimestampedValue[T], Iterator[TimestampedValue[T]]]):
    """Values with timestamps, sorted by time; values of the same time stay in the order in which they were added
    (Beam's ``OrderedListState``). A range has the times from ``min_timestamp`` up to, but not including,
    ``limit_timestamp``. Reading a range reads only its values.
    """

    _time = TimestampCoder()

    def __init__(self, cell: Cell, coder: Coder[T]) -> None:
        self._cell = cell
        self._coder = coder

    def read(self) -> Iterator[TimestampedValue[T]]:
        """Iterate over all present values (Beam's ``read``)."""
        return self._decoded(self._cell.parts_with_values())

    def read_range(self, min_timestamp: datetime, limit_timestamp: datetime) -> Iterator[TimestampedValue[T]]:
        """Iterate over the values of a range (Beam's ``readRange``)."""
        start, end = self._time.encode(min_timestamp), self._time.encode(limit_timestamp)
        return self._decoded(self._cell.parts_with_values(start, end)) if start < end else iter(())

    def clear_range(self, min_timestamp: datetime, limit_timestamp: datetime) -> None:
        """Remove the values of a range (Beam's ``clearRange``)."""
        start, end = self._time.encode(min_timestamp), self._time.encode(limit_timestamp)
        if start < end:
            self._cell.remove_parts(start, end)

    def add(self, value: TimestampedValue[T]) -> None:
        self._cell.append(self._coder.encode(value.value), self._time.encode(value.timestamp))

    def clear(self) -> None:
        self._cell.remove_parts()

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.has_no_parts()

    def _decoded(self, parts: Iterator[tuple[bytes, bytes]]) -> Iterator[TimestampedValue[T]]:
        return (TimestampedValue(self._coder.decode(value), self._time.decode(time)) for time, value in parts)


class SetState(GroupingState[T, Iterator[T]]):
    """Elements without repetition, in the order of their bytes (Beam's ``SetState``)."""

    def __init__(self, cell: Cell, coder: Coder[T]) -> None:
        self._cell = cell
        self._coder = coder

    def read(self) -> Iterator[T]:
        """Iterate over the present elements (Beam's ``read``)."""
        return (self._coder.decode(element) for element, _ in self._cell.parts())

    def contains(self, element: T) -> ReadableState[bool]:
        """Return a readable state: whether the set contains the element at the time of this call (Beam's
        ``contains``).
        """
        return self._cell.lookup(self._coder.encode(element), _is_there)

    def add(self, value: T) -> None:
        self._cell.put(b"", self._coder.encode(value))

    def add_if_absent(self, element: T) -> ReadableState[bool]:
        """Add the element, and return a readable state: whether the set lacked the element before (Beam's
        ``addIfAbsent``).
        """
        part = self._coder.encode(element)
        absent = self._cell.get(part) is None
        if absent:
            self._cell.put(b"", part)
        return View(lambda: absent)

    def remove(self, element: T) -> None:
        """Remove the element, if the set contains it (Beam's ``remove``)."""
        self._cell.remove(self._coder.encode(element))

    def clear(self) -> None:
        self._cell.remove_parts()

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.has_no_parts()


class MapState(Entries[K, V], State):
    """Values under keys, sorted by the bytes of the keys (Beam's ``MapState``). With a `NullableCoder` a value may be
    None; its key is present all the same.
    """

    _cell: Cell

    def get(self, key: K) -> ReadableState[V | None]:
        """Return a readable state of the value that the key has at this call; None if the key has no value (Beam's
        ``get``).
        """
        return self.get_or_default(key, None)

    def get_or_default(self, key: K, default: D) -> ReadableState[V | D]:
        """Return a readable state of the value that the key has at this call, or the default (Beam's
        ``getOrDefault``).
        """
        return self._cell.lookup(
            self._keys.encode(key), lambda found: default if found is None else self._values.decode(found)
        )

    def contains(self, key: K) -> ReadableState[bool]:
        """Return a readable state: whether the map contains the key at the time of this call (Flink's ``contains``)."""
        return self._cell.lookup(self._keys.encode(key), _is_there)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key (Beam's ``put``)."""
        self._put(key, value)

    def put_if_absent(self, key: K, value: V) -> ReadableState[V | None]:
        """Set the value of a key that has none. Return a readable state of the value before the call, None if there was
        none (Beam's ``putIfAbsent``).
        """
        return self.compute_if_absent(key, lambda _: value)

    def compute_if_absent(self, key: K, function: Callable[[K], V]) -> ReadableState[V | None]:
        """If the key has no value, set the value to the result of the function for the key. Return a readable state of
        the value before the call, None if there was none (Beam's ``computeIfAbsent``).
        """
        part = self._keys.encode(key)
        found = self._cell.get(part)
        if found is None:
            self._cell.put(self._values.encode(function(key)), part)
        return View(lambda: None if found is None else self._values.decode(found))

    def remove(self, key: K) -> None:
        """Remove the key, if the map contains it (Beam's ``remove``)."""
        self._remove(key)

    def keys(self) -> ReadableState[Iterator[K]]:
        """Return a readable state of the keys that the map has at the time of each read (Beam's ``keys``)."""
        return View(lambda: (self._keys.decode(key) for key, _ in self._cell.parts()))

    def values(self) -> ReadableState[Iterator[V]]:
        """Return a readable state of the values at the time of each read, in the order of their keys (Beam's
        ``values``).
        """
        return View(lambda: (self._values.decode(value) for _, value in self._cell.parts()))

    def entries(self) -> ReadableState[Iterator[tuple[K, V]]]:
        """Return a readable state of the keys and their values at the time of each read (Beam's ``entries``)."""
        return View(self._items)

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.has_no_parts()


def _is_there(found: bytes | None) -> bool:
    return found is not None


class MultimapState(State, Generic[K, V]):
    """Several values under each key, sorted by the bytes of the keys (Beam's ``MultimapState``). The values of a key
    keep the order in which they were put. A returned state shows the content at the time of each ``read``. An iterator
    shows the content at the time of the ``read`` that returned it.
    """

    def __init__(self, cell: Cell, key_coder: Coder[K], value_coder: Coder[V]) -> None:
        self._cell = cell
        self._keys = key_coder
        self._values = value_coder

    def put(self, key: K, value: V) -> None:
        """Add a value to those of a key (Beam's ``put``)."""
        self._cell.append(self._values.encode(value), self._keys.encode(key))

    def get(self, key: K) -> ReadableState[Iterator[V]]:
        """Return a readable state of the values of a key; there are none if the key is absent (Beam's ``get``)."""
        part = self._keys.encode(key)
        return View(lambda: map(self._values.decode, self._cell.values(part)))

    def contains(self, key: K) -> ReadableState[bool]:
        """Return a readable state: whether the key has a value (Beam's ``containsKey``)."""
        absent = self._cell.is_absent(self._keys.encode(key))
        return View(lambda: not absent.read())

    def remove(self, key: K) -> None:
        """Remove all values of a key, if it has any (Beam's ``remove``)."""
        self._cell.remove(self._keys.encode(key))

    def keys(self) -> ReadableState[Iterator[K]]:
        """Return a readable state of the keys, each once (Beam's ``keys``). Each read of this state reads all values of
        the multimap.
        """
        return View(
            lambda: (self._keys.decode(part) for part, _ in groupby(self._cell.parts_with_values(), itemgetter(0)))
        )

    def entries(self) -> ReadableState[Iterator[tuple[K, V]]]:
        """Return a readable state of all values, each with its key (Beam's ``entries``)."""
        return View(
            lambda: (
                (self._keys.decode(part), self._values.decode(value)) for part, value in self._cell.parts_with_values()
            )
        )

    def clear(self) -> None:
        self._cell.remove_parts()

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.has_no_parts()

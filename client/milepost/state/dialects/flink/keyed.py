"""The keyed states themselves: each shows the state of the current key (Flink's ``State`` and its subclasses)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from milepost.state.coders import Coder
from milepost.state.dialects.flink.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from milepost.state.dialects.flink.values import Cells, Lists

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")

Place = Callable[[], bytes]
"""A function that returns the store key of the current key's state. Raises `InvalidUse` if no key is current."""


class State(ABC):
    """The operations that all states of the current key have (``State``)."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueState(State, Generic[T]):
    """One value (``ValueState``)."""

    def __init__(self, cells: Cells, descriptor: ValueStateDescriptor[T], place: Place) -> None:
        self._cells = cells
        self._coder = descriptor.coder
        self._default = None if descriptor.default is None else descriptor.coder.encode(descriptor.default)
        self._place = place

    def value(self) -> T | None:
        """Return the value, or the default if there is none."""
        kept = self._cells.get(self._place())
        if kept is None:
            kept = self._default
        return None if kept is None else self._coder.decode(kept)

    def update(self, value: T | None) -> None:
        """Set the value; None removes it, as in Flink, so that `value` returns the default again."""
        if value is None:
            self.clear()
        else:
            self._cells.put(self._place(), self._coder.encode(value))

    def clear(self) -> None:
        self._cells.remove(self._place())


class ListState(State, Generic[T]):
    """A list, which grows without being read (``ListState``)."""

    def __init__(self, lists: Lists, descriptor: ListStateDescriptor[T], place: Place) -> None:
        self._lists = lists
        self._coder = descriptor.coder
        self._place = place

    def get(self) -> list[T]:
        """Return the elements in the order they were added."""
        return [self._coder.decode(one) for one in self._lists.get(self._place())]

    def add(self, value: T) -> None:
        """Add an element at the end."""
        self.add_all((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Add elements at the end (``addAll``)."""
        self._lists.add(self._place(), [self._coder.encode(value) for value in values])

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements by these."""
        self._lists.set(self._place(), [self._coder.encode(value) for value in values])

    def clear(self) -> None:
        self._lists.set(self._place(), ())


class ReducingState(State, Generic[T]):
    """One value, which each added value is reduced into (``ReducingState``)."""

    def __init__(self, cells: Cells, descriptor: ReducingStateDescriptor[T], place: Place) -> None:
        self._cells = cells
        self._coder = descriptor.coder
        self._reduce = descriptor.reduce
        self._place = place

    def get(self) -> T | None:
        """Return the reduction of all values so far, None if there were none."""
        kept = self._cells.get(self._place())
        return None if kept is None else self._coder.decode(kept)

    def add(self, value: T) -> None:
        """Reduce one more value into the value."""
        before = self._cells.get(self._place())
        after = value if before is None else self._reduce(self._coder.decode(before), value)
        self._cells.put(self._place(), self._coder.encode(after))

    def clear(self) -> None:
        self._cells.remove(self._place())


class AggregatingState(State, Generic[In, Acc, Out]):
    """An accumulator, to which values are added, and which has a result (``AggregatingState``)."""

    def __init__(self, cells: Cells, descriptor: AggregatingStateDescriptor[In, Acc, Out], place: Place) -> None:
        self._cells = cells
        self._coder = descriptor.coder
        self._aggregate = descriptor.aggregate
        self._place = place

    def get(self) -> Out | None:
        """Return the result of the values so far, None if there were none."""
        kept = self._cells.get(self._place())
        return None if kept is None else self._aggregate.get_result(self._coder.decode(kept))

    def add(self, value: In) -> None:
        """Add one more value."""
        kept = self._cells.get(self._place())
        before = self._aggregate.create_accumulator() if kept is None else self._coder.decode(kept)
        self._cells.put(self._place(), self._coder.encode(self._aggregate.add(value, before)))

    def clear(self) -> None:
        self._cells.remove(self._place())


class MapState(State, Generic[K, V]):
    """A map whose entries are read and written one by one (``MapState``). Entries are in the order of their bytes."""

    def __init__(self, cells: Cells, descriptor: MapStateDescriptor[K, V], place: Place) -> None:
        self._cells = cells
        self._keys: Coder[K] = descriptor.key_coder
        self._values: Coder[V] = descriptor.value_coder
        self._place = place

    def get(self, key: K) -> V | None:
        """Return the value of an entry, None if there is no such entry."""
        kept = self._cells.get(self._place() + self._keys.encode(key))
        return None if kept is None else self._values.decode(kept)

    def contains(self, key: K) -> bool:
        """Return whether an entry exists."""
        return self._cells.get(self._place() + self._keys.encode(key)) is not None

    def put(self, key: K, value: V) -> None:
        """Set the value of an entry."""
        self._cells.put(self._place() + self._keys.encode(key), self._values.encode(value))

    def put_all(self, entries: Mapping[K, V]) -> None:
        """Set the values of entries (``putAll``)."""
        for key, value in entries.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove an entry, if it exists."""
        self._cells.remove(self._place() + self._keys.encode(key))

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over the present entries (``entries``). The iterator ends with the next snapshot of the task."""
        place = self._place()
        pairs = self._cells.scan(place)
        return ((self._keys.decode(key[len(place) :]), self._values.decode(value)) for key, value in pairs)

    def keys(self) -> Iterator[K]:
        """Iterate over the keys of the entries."""
        return (key for key, _ in self.items())

    def values(self) -> Iterator[V]:
        """Iterate over the values of the entries."""
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        """Return whether there are no entries (``isEmpty``)."""
        return next(self.items(), None) is None

    def clear(self) -> None:
        self._cells.remove_prefix(self._place())


class BroadcastState(MapState[K, V]):
    """A map without a key that is equal in all tasks (``BroadcastState``): each task writes the same entries to its own
    copy.
    """

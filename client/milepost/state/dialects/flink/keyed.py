"""The keyed states themselves: each shows the state of the current key (Flink's ``State`` and its subclasses)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from milepost.state.cells.states import Cell, Elements, Entries, Folded, OneValue
from milepost.state.coders import Coder
from milepost.state.dialects.flink.descriptors import AggregateFunction

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")


class State(ABC):
    """The operations that all states of the current key have (``State``)."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueState(OneValue[T], State):
    """One value (``ValueState``)."""

    def __init__(self, cell: Cell, coder: Coder[T], default: T | None) -> None:
        """``default`` is the value of a key without one."""
        super().__init__(cell, coder)
        self._default = None if default is None else coder.encode(default)

    def value(self) -> T | None:
        """Return the value, or the default if there is none."""
        kept = self._cell.get()
        if kept is None:
            kept = self._default
        return None if kept is None else self._coder.decode(kept)

    def update(self, value: T | None) -> None:
        """Set the value; None removes it, as in Flink, so that `value` returns the default again."""
        if value is None:
            self.clear()
        else:
            self._put(value)


class ListState(Elements[T], State):
    """A list, which grows without being read (``ListState``)."""

    def get(self) -> list[T]:
        """Return the elements in the order they were added."""
        return list(self._get())

    def add(self, value: T) -> None:
        """Add an element at the end."""
        self._add((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Add elements at the end (``addAll``)."""
        self._add(values)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements by these."""
        self._set(values)


class ReducingState(Folded[T], State):
    """One value, which each added value is reduced into (``ReducingState``)."""

    def get(self) -> T | None:
        """Return the reduction of all values so far, None if there were none."""
        return self._get()


class AggregatingState(OneValue[Acc], State, Generic[In, Acc, Out]):
    """An accumulator, to which values are added, and which has a result (``AggregatingState``)."""

    def __init__(self, cell: Cell, coder: Coder[Acc], aggregate: AggregateFunction[In, Acc, Out]) -> None:
        super().__init__(cell, coder)
        self._aggregate = aggregate

    def get(self) -> Out | None:
        """Return the result of the values so far, None if there were none."""
        kept = self._cell.get()
        return None if kept is None else self._aggregate.get_result(self._coder.decode(kept))

    def add(self, value: In) -> None:
        """Add one more value."""
        kept = self._cell.get()
        before = self._aggregate.create_accumulator() if kept is None else self._coder.decode(kept)
        self._put(self._aggregate.add(value, before))


class MapState(Entries[K, V], State):
    """A map whose entries are read and written one by one (``MapState``). Entries are in the order of their bytes."""

    def get(self, key: K) -> V | None:
        """Return the value of an entry, None if there is no such entry."""
        return self._get(key)

    def contains(self, key: K) -> bool:
        """Return whether an entry exists."""
        return self._contains(key)

    def put(self, key: K, value: V) -> None:
        """Set the value of an entry."""
        self._put(key, value)

    def put_all(self, entries: Mapping[K, V]) -> None:
        """Set the values of entries (``putAll``)."""
        for key, value in entries.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove an entry, if it exists."""
        self._remove(key)

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over the present entries (``entries``). The iterator ends with the next snapshot of the task."""
        return self._items()

    def keys(self) -> Iterator[K]:
        """Iterate over the keys of the entries."""
        return (key for key, _ in self.items())

    def values(self) -> Iterator[V]:
        """Iterate over the values of the entries."""
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        """Return whether there are no entries (``isEmpty``)."""
        return next(self.items(), None) is None


class BroadcastState(MapState[K, V]):
    """A map without a key that is equal in all tasks (``BroadcastState``): each task writes the same entries to its own
    copy.
    """

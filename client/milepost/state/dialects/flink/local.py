"""The operator states themselves: the state of a task, without a key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from milepost.state.coders import Coder, FixedIntCoder
from milepost.state.dialects.flink.descriptors import ListStateDescriptor, OperatorStateDescriptor
from milepost.state.dialects.flink.task_store import TaskStore

T = TypeVar("T")

VALUE_KEY = b""
"""The key of the single value in its family."""

INDEX = FixedIntCoder(8, signed=False)
"""Encodes the position of an element in its list, which is the element's key in the family of the list."""


class OperatorState(Generic[T]):
    """One value of the task, with a default (``OperatorState`` of Flink's first releases)."""

    def __init__(self, tasks: TaskStore, family: str, descriptor: OperatorStateDescriptor[T]) -> None:
        self._tasks = tasks
        self._family = family
        self._coder = descriptor.coder
        self._default = None if descriptor.default is None else descriptor.coder.encode(descriptor.default)

    @property
    def is_set(self) -> bool:
        """Whether there is a value other than the default."""
        return self._tasks.store.key_exists(VALUE_KEY, self._family)

    def value(self) -> T | None:
        """Return the value, or a copy of the default if it was never updated."""
        kept = self._tasks.store.get(VALUE_KEY, self._family)
        if kept is None:
            kept = self._default
        return None if kept is None else self._coder.decode(kept)

    def update(self, value: T) -> None:
        """Set the value."""
        encoded = self._coder.encode(value)
        if self._tasks.store.get(VALUE_KEY, self._family) != encoded:
            self._tasks.store.put(VALUE_KEY, encoded, self._family)

    def clear(self) -> None:
        """Remove the value, so that `value` returns the default again."""
        self._tasks.store.remove(VALUE_KEY, self._family)


class Elements:
    """The elements of a task's list as bytes, each under its position.

    Unchanged elements are not written again: a list that is cleared and filled anew for each snapshot, as Flink's
    ``BufferingSink`` does, costs only its new elements.
    """

    def __init__(self, tasks: TaskStore, family: str) -> None:
        self._tasks = tasks
        self._family = family
        self._kept = self.length = sum(1 for _ in tasks.store.iterator(family))

    def get(self) -> list[bytes]:
        """Return the elements in their order."""
        return [value for _, value in self._tasks.store.range_scan(None, INDEX.encode(self.length), self._family)]

    def add(self, values: Iterable[bytes]) -> None:
        """Add elements at the end."""
        for value in values:
            key = INDEX.encode(self.length)
            if self.length >= self._kept or self._tasks.store.get(key, self._family) != value:
                self._tasks.store.put(key, value, self._family)
            self.length += 1
            self._kept = max(self._kept, self.length)

    def clear(self) -> None:
        """Remove all elements."""
        self.length = 0

    def before_snapshot(self) -> None:
        """Remove the remains of a longer list."""
        if self._kept > self.length:
            self._tasks.store.delete_range(INDEX.encode(self.length), None, self._family)
            self._kept = self.length


class OperatorListState(Generic[T]):
    """A list of the task (``ListState`` of an ``OperatorStateStore``), which is redistributed element by element."""

    def __init__(self, elements: Elements, descriptor: ListStateDescriptor[T]) -> None:
        self._elements = elements
        self._coder: Coder[T] = descriptor.coder

    def get(self) -> list[T]:
        """Return the elements in their order."""
        return [self._coder.decode(one) for one in self._elements.get()]

    def add(self, value: T) -> None:
        """Add an element at the end."""
        self._elements.add((self._coder.encode(value),))

    def add_all(self, values: Iterable[T]) -> None:
        """Add elements at the end (``addAll``)."""
        self._elements.add([self._coder.encode(value) for value in values])

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements by these."""
        encoded = [self._coder.encode(value) for value in values]
        self._elements.clear()
        self._elements.add(encoded)

    def clear(self) -> None:
        """Remove all elements."""
        self._elements.clear()

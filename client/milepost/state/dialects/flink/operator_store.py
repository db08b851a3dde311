"""Operator states with Flink's interface: the state of a task, without a key. `OperatorStateStore` registers the
states, and computes each task's share of a single value when the number of tasks changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from milepost.state.cells.families import ValueFamily
from milepost.state.cells.states import KeyedCell
from milepost.state.coders import Coder, FixedIntCoder
from milepost.state.dialects.flink.descriptors import (
    OPERATOR,
    Kind,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorStateDescriptor,
)
from milepost.state.dialects.flink.keyed_store import BroadcastState, ValueOrDefault
from milepost.state.dialects.flink.task_store import TaskStore
from milepost.state.errors import Incompatible, InvalidUse

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

VALUE_KEY = b""
"""The key of the value of a state that has a single value."""

INDEX = FixedIntCoder(8, signed=False)
"""Encodes the position of a list element. That is the key of the element in the column family of the list."""


class OperatorState(ValueOrDefault[T]):
    """One value of the task, with a default (``OperatorState`` of Flink's first releases)."""

    @property
    def is_set(self) -> bool:
        """Whether a value was set; if not, `value` returns the default."""
        return self._cell.get() is not None

    def update(self, value: T) -> None:
        """Set the value. A value with the same bytes as before is not written to the state store again."""
        encoded = self._coder.encode(value)
        if self._cell.get() != encoded:
            self._cell.put(encoded)


class Elements:
    """The elements of a task's list as bytes, each under its position. An element that did not change is not written to
    the state store again. So a list that is cleared and filled anew before each snapshot, as Flink's ``BufferingSink``
    does, costs only its new elements.
    """

    def __init__(self, tasks: TaskStore, family: str) -> None:
        self._tasks = tasks
        self._family = family
        self._kept = self.length = sum(1 for _ in tasks.store.iterator(family))

    def get(self) -> list[bytes]:
        """Return the elements of the list, in order."""
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
        """Make the list empty. Stored rows stay until `before_snapshot`, so that equal ones are not written again."""
        self.length = 0

    def before_snapshot(self) -> None:
        """Remove the stored rows behind the last element, which remain from an earlier, longer list."""
        if self._kept > self.length:
            self._tasks.store.delete_range(INDEX.encode(self.length), None, self._family)
            self._kept = self.length


class OperatorListState(Generic[T]):
    """A list of the task. If the number of tasks changes, its elements are divided among the new tasks, or each gets
    all of them (Flink's ``ListState`` of an ``OperatorStateStore``).
    """

    def __init__(self, elements: Elements, descriptor: ListStateDescriptor[T]) -> None:
        self._elements = elements
        self._coder: Coder[T] = descriptor.coder

    def get(self) -> list[T]:
        """Return the elements of the list, in order."""
        return [self._coder.decode(one) for one in self._elements.get()]

    def add(self, value: T) -> None:
        """Add an element at the end."""
        self._elements.add((self._coder.encode(value),))

    def add_all(self, values: Iterable[T]) -> None:
        """Add elements at the end (Flink's ``addAll``)."""
        self._elements.add([self._coder.encode(value) for value in values])

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements by these."""
        encoded = [self._coder.encode(value) for value in values]
        self._elements.clear()
        self._elements.add(encoded)

    def clear(self) -> None:
        """Remove all elements."""
        self._elements.clear()


class OperatorStateStore:
    """The operator states of one task (Flink's ``OperatorStateStore``). Each method that makes a state registers it,
    and raises `Incompatible` if a state of the same name was stored as another kind, for example as a union list
    instead of a split list.
    """

    def __init__(self, tasks: TaskStore, task: int, of: int, waiting: Mapping[str, list[bytes]]) -> None:
        """Make the states of the task number ``task`` of ``of`` tasks, in the task's state store ``tasks``. ``waiting``
        has, by column family, single values that another number of tasks wrote, and that can only be merged and split
        once a descriptor with the functions for that is registered.
        """
        self._tasks = tasks
        self._task = task
        self._of = of
        self._waiting = dict(waiting)
        self._lists: dict[str, Elements] = {}

    def state(self, descriptor: OperatorStateDescriptor[T]) -> OperatorState[T]:
        """Register a state with one value for each task, and return it (Flink's ``getOperatorState``). Raises
        `Incompatible` if another number of tasks wrote the state, and the descriptor has no functions to merge and
        split it.
        """
        family = self._register(descriptor.name, Kind.VALUE)
        cell = KeyedCell(ValueFamily(self._tasks, family), lambda: VALUE_KEY)
        state = OperatorState(cell, descriptor.coder, descriptor.default)
        if family in self._waiting:
            for mine in _split_and_merged(descriptor, self._waiting[family], self._task, self._of):
                state.update(mine)
            del self._waiting[family]
        return state

    def list_state(self, descriptor: ListStateDescriptor[T]) -> OperatorListState[T]:
        """Register a list of the task, and return it. If the number of tasks changes, all elements are divided evenly
        among the new tasks (Flink's ``getListState``).
        """
        return self._list(descriptor, Kind.SPLIT_LIST)

    def union_list_state(self, descriptor: ListStateDescriptor[T]) -> OperatorListState[T]:
        """Register a list of the task, and return it. A restore gives each task the elements of all tasks (Flink's
        ``getUnionListState``). The task keeps the elements that it needs, and its next snapshot contains only those.
        """
        return self._list(descriptor, Kind.UNION_LIST)

    def broadcast_state(self, descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Register a map that is equal in all tasks, and return it (Flink's ``getBroadcastState``)."""
        self._check_no_ttl(descriptor)
        family = self._register(descriptor.name, Kind.BROADCAST)
        cell = KeyedCell(ValueFamily(self._tasks, family), lambda: b"")
        return BroadcastState(cell, descriptor.key_coder, descriptor.value_coder)

    def drop(self, name: str) -> None:
        """Remove the state ``name``. A state that was restored can be removed without registering it."""
        self._lists.pop(OPERATOR + name, None)
        self._waiting.pop(OPERATOR + name, None)
        self._tasks.drop(OPERATOR + name)

    def before_snapshot(self) -> dict[str, int]:
        """Prepare the state store for a commit, and return the number of elements of each list. Raises `Incompatible`
        if restored values still wait for a descriptor that merges and splits them, because the commit would lose them.
        """
        if self._waiting:
            names = ", ".join(sorted(family.removeprefix(OPERATOR) for family in self._waiting))
            raise Incompatible(
                f"these states were written by another number of tasks, and are neither registered nor dropped: {names}"
            )
        for family, kind in self._tasks.states.items():
            if kind in (Kind.SPLIT_LIST.value, Kind.UNION_LIST.value):
                self._elements(family).before_snapshot()
        return {family: one.length for family, one in self._lists.items()}

    def _list(self, descriptor: ListStateDescriptor[T], kind: Kind) -> OperatorListState[T]:
        self._check_no_ttl(descriptor)
        return OperatorListState(self._elements(self._register(descriptor.name, kind)), descriptor)

    def _elements(self, family: str) -> Elements:
        found = self._lists.get(family)
        if found is None:
            found = self._lists[family] = Elements(self._tasks, family)
        return found

    def _register(self, name: str, kind: Kind) -> str:
        self._tasks.register(OPERATOR + name, kind.value)
        return OPERATOR + name

    @staticmethod
    def _check_no_ttl(descriptor: ListStateDescriptor[Any] | MapStateDescriptor[Any, Any]) -> None:
        if descriptor.ttl is not None:
            raise InvalidUse(f"operator state has no time to live, and {descriptor.name!r} asks for one")


def _split_and_merged(
    descriptor: OperatorStateDescriptor[T], values: Sequence[bytes], task: int, tasks: int
) -> Iterator[T]:
    """Yield the value of the task number ``task`` of ``tasks``, from the ``values`` that another number of tasks wrote:
    the descriptor merges these into one, and splits it. Yield nothing if there are no values. Raises `Incompatible` if
    the descriptor has no functions for that, or its ``split`` returns another number of values than ``tasks``.
    """
    if not values:
        return
    if descriptor.split is None or descriptor.merge is None:
        raise Incompatible(
            f"the state {descriptor.name!r} is of another number of tasks: its descriptor needs split and merge"
        )
    merged = descriptor.merge([descriptor.coder.decode(one) for one in values])
    split = descriptor.split(merged, tasks)
    if len(split) != tasks:
        raise Incompatible(f"the state {descriptor.name!r} was split into {len(split)} values for {tasks} tasks")
    yield split[task]

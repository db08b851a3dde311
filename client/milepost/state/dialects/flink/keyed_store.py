"""Keyed states with Flink's interface. `KeyedStateStore` registers states and holds the current key, whose state the
state objects access.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from milepost.state.cells.families import CellFamily, ListFamily, ValueFamily
from milepost.state.cells.lifetime import Clock
from milepost.state.cells.states import Cell, CurrentKey, Elements, Entries, Folded, KeyedCell, OneValue
from milepost.state.coders import Coder
from milepost.state.dialects.flink.descriptors import (
    KEYED,
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedDescriptor,
    Kind,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
    base_kind,
    keyed_kind,
)
from milepost.state.dialects.flink.task_store import TaskStore
from milepost.state.errors import InvalidUse
from milepost.state.key_groups import KeyGroups, split_entry, without_group

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")
F = TypeVar("F", bound=CellFamily)


class State(ABC):
    """The base class of all keyed states; each shows the state of the current key (Flink's ``State``)."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueOrDefault(OneValue[T]):
    """The base class of states with one value, or a default while none is set."""

    def __init__(self, cell: Cell, coder: Coder[T], default: T | None) -> None:
        """``default`` is the value that `value` returns while none is set; it may be None."""
        super().__init__(cell, coder)
        self._default = None if default is None else coder.encode(default)

    def value(self) -> T | None:
        """Return the value, or the default if there is none."""
        kept = self._cell.get()
        if kept is None:
            kept = self._default
        return None if kept is None else self._coder.decode(kept)


class ValueState(ValueOrDefault[T], State):
    """One value for each key (Flink's ``ValueState``)."""

    def update(self, value: T | None) -> None:
        """Set the value; None removes it, as in Flink, so that `value` returns the default again."""
        if value is None:
            self.clear()
        else:
            self._put(value)


class ListState(Elements[T], State):
    """A list for each key. Adding to it does not read it (Flink's ``ListState``)."""

    def get(self) -> list[T]:
        """Return the elements in the order in which they were added."""
        return list(self._get())

    def add(self, value: T) -> None:
        """Add an element at the end."""
        self._add((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Add elements at the end (Flink's ``addAll``)."""
        self._add(values)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements by these."""
        self._set(values)


class ReducingState(Folded[T], State):
    """One value for each key, which a function combines with each added value (Flink's ``ReducingState``)."""

    def get(self) -> T | None:
        """Return the combination of all values so far, None if there were none."""
        return self._get()


class AggregatingState(OneValue[Acc], State, Generic[In, Acc, Out]):
    """An accumulator for each key, to which values are added, and from which a result is computed (Flink's
    ``AggregatingState``).
    """

    def __init__(self, cell: Cell, coder: Coder[Acc], aggregate: AggregateFunction[In, Acc, Out]) -> None:
        super().__init__(cell, coder)
        self._aggregate = aggregate

    def get(self) -> Out | None:
        """Return the result of the values so far, None if there were none."""
        kept = self._cell.get()
        return None if kept is None else self._aggregate.get_result(self._coder.decode(kept))

    def add(self, value: In) -> None:
        """Add a value to the accumulator."""
        kept = self._cell.get()
        before = self._aggregate.create_accumulator() if kept is None else self._coder.decode(kept)
        self._put(self._aggregate.add(value, before))


class MapState(Entries[K, V], State):
    """A map for each key, whose entries are read and written one by one (Flink's ``MapState``). Entries are in the
    order of their bytes.
    """

    def get(self, key: K) -> V | None:
        """Return the value of the entry with this key, None if there is no such entry."""
        return self._get(key)

    def contains(self, key: K) -> bool:
        """Return whether the map has an entry with this key."""
        return self._contains(key)

    def put(self, key: K, value: V) -> None:
        """Set the value of the entry with this key."""
        self._put(key, value)

    def put_all(self, entries: Mapping[K, V]) -> None:
        """Set the values of several entries, and keep all others (Flink's ``putAll``)."""
        for key, value in entries.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove an entry, if it exists."""
        self._remove(key)

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over the present entries (Flink's ``entries``). The iterator ends with the next snapshot of the
        task.
        """
        return self._items()

    def keys(self) -> Iterator[K]:
        """Iterate over the keys of the entries."""
        return (key for key, _ in self.items())

    def values(self) -> Iterator[V]:
        """Iterate over the values of the entries."""
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        """Return True if the map has no entries (Flink's ``isEmpty``)."""
        return next(self.items(), None) is None


class BroadcastState(MapState[K, V]):
    """A map without a key. Each task writes the same entries to its own copy (Flink's ``BroadcastState``)."""


class KeyedStateStore:
    """The keyed states of one task (Flink's ``KeyedStateStore``). A stored key begins with its key group, so a range of
    key groups is a range of the state store. Each method that makes a state registers it, and raises `Incompatible` if
    a state of the same name was stored as another kind.
    """

    def __init__(self, tasks: TaskStore, key_coder: Coder[Any], groups: KeyGroups, mine: range, clock: Clock) -> None:
        """``tasks`` is the state store of the task, ``groups`` the division of all keys into key groups, and ``mine``
        the range of the task's own key groups. ``clock`` is for times to live.
        """
        if not key_coder.deterministic:
            raise InvalidUse("keys need a deterministic coder, so that equal keys have equal bytes")
        self._tasks = tasks
        self._coder = key_coder
        self._groups = groups
        self._mine = mine
        self._clock = clock
        self._families: dict[str, CellFamily] = {}
        self._ttls: dict[str, StateTtlConfig | None] = {}
        self._current = CurrentKey(groups, "no key is current: set current_key before keyed state is used")
        self._key: Any = None

    @property
    def current_key(self) -> Any:
        """The key whose state all keyed states show (Flink's ``setCurrentKey``). Raises `InvalidUse` for a key of
        another task, and before a key is set.
        """
        self._current.row()  # raises InvalidUse if no key is current
        return self._key

    @current_key.setter
    def current_key(self, key: Any) -> None:
        encoded = self._coder.encode(key)
        group = self._groups.group(encoded)
        if group not in self._mine:
            raise InvalidUse(
                f"the key is in group {group}, and this task has the groups {self._mine.start} to {self._mine.stop - 1}"
            )
        self._key = key
        self._current.set(encoded)
        for family, ttl in self._ttls.items():
            if ttl is not None and ttl.for_every_record:
                self._families[family].clean_some()

    def value_state(self, descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Register a state with one value for each key, and return it (Flink's ``getState``)."""
        return ValueState(self._cell(descriptor), descriptor.coder, descriptor.default)

    def list_state(self, descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Register a state with a list for each key, and return it (Flink's ``getListState``)."""
        return ListState(self._family(descriptor, ListFamily), self._current.row, descriptor.coder)

    def map_state(self, descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Register a state with a map for each key, and return it (Flink's ``getMapState``)."""
        cell = KeyedCell(self._family(descriptor, ValueFamily), self._current.entries)
        return MapState(cell, descriptor.key_coder, descriptor.value_coder)

    def reducing_state(self, descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Register a state with a reduced value for each key, and return it (Flink's ``getReducingState``)."""
        return ReducingState(self._cell(descriptor), descriptor.coder, descriptor.reduce)

    def aggregating_state(self, descriptor: AggregatingStateDescriptor[In, Acc, Out]) -> AggregatingState[In, Acc, Out]:
        """Register a state with an accumulator for each key, and return it (Flink's ``getAggregatingState``)."""
        return AggregatingState(self._cell(descriptor), descriptor.coder, descriptor.aggregate)

    def keys(self, name: str) -> Iterator[Any]:
        """Iterate over the keys that have a value, expired or not, in the registered state ``name`` (Flink's
        ``getKeys``).
        """
        values = self._families.get(KEYED + name)
        if values is None:
            raise InvalidUse(f"there is no keyed state {name!r}")
        take_apart = split_entry if base_kind(self._tasks.states[values.family]) is Kind.MAP else without_group
        last = None
        for kept in values.all_keys():
            key = take_apart(kept)[1]
            if key != last:
                yield self._coder.decode(key)
                last = key

    def drop(self, name: str) -> None:
        """Remove the state ``name`` with the values of all keys. A state that was restored can be removed without
        registering it.
        """
        self._families.pop(KEYED + name, None)
        self._ttls.pop(KEYED + name, None)
        self._tasks.drop(KEYED + name)

    def before_snapshot(self) -> None:
        """Remove all expired values of the states whose `StateTtlConfig` requires that before a snapshot."""
        for family, ttl in self._ttls.items():
            if ttl is not None and ttl.full_snapshot:
                self._families[family].clean_all()

    def _cell(self, descriptor: KeyedDescriptor) -> KeyedCell:
        return KeyedCell(self._family(descriptor, ValueFamily), self._current.row)

    def _family(self, descriptor: KeyedDescriptor, kind: type[F]) -> F:
        family, ttl = KEYED + descriptor.name, descriptor.ttl
        if self._ttls.get(family, ttl) != ttl:
            raise InvalidUse(f"the keyed state {descriptor.name!r} is registered with another time to live already")
        self._tasks.register(family, keyed_kind(descriptor), multiple=kind is ListFamily)
        found = self._families.get(family)
        if found is None:
            lifetime = None if ttl is None else ttl.lifetime(self._clock)
            found = kind(self._tasks, family, lifetime, checks=0 if ttl is None else ttl.incremental)
            self._families[family], self._ttls[family] = found, ttl
        assert isinstance(found, kind)
        return found

"""Descriptors: what a state is called, how its values become bytes, what becomes of it under other parallelism, and as
which kind a checkpoint names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from milepost.state.coders import Coder
from milepost.state.dialects.flink.ttl import StateTtlConfig
from milepost.state.errors import InvalidUse

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")

_MOST_NAME_BYTES = 180

KEYED = "keyed:"
"""What the family of a keyed state begins with; its name follows."""

OPERATOR = "operator:"
"""What the family of an operator state begins with."""

_WITH_TTL = " with ttl"


@dataclass(frozen=True)
class _Named:
    name: str
    """The name of the state, unique among the keyed states, or among the operator states, of a task."""

    def __post_init__(self) -> None:
        if not 0 < len(self.name.encode(errors="replace")) <= _MOST_NAME_BYTES:
            raise InvalidUse(f"the name of a state has 1 to {_MOST_NAME_BYTES} bytes")


@dataclass(frozen=True)
class ValueStateDescriptor(_Named, Generic[T]):
    """One value for each key (``ValueStateDescriptor``). ``default`` is what a key has that has none; each reader gets
    a copy of it, made by the coder.
    """

    coder: Coder[T]
    default: T | None = None
    ttl: StateTtlConfig | None = None


@dataclass(frozen=True)
class ListStateDescriptor(_Named, Generic[T]):
    """A list for each key, or of the task (``ListStateDescriptor``). ``coder`` encodes an element, and ``ttl`` is for
    lists of keys alone.
    """

    coder: Coder[T]
    ttl: StateTtlConfig | None = None


@dataclass(frozen=True)
class MapStateDescriptor(_Named, Generic[K, V]):
    """A map for each key, or that all tasks have (``MapStateDescriptor``). ``ttl`` is for maps of keys alone."""

    key_coder: Coder[K]
    value_coder: Coder[V]
    ttl: StateTtlConfig | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.key_coder.deterministic:
            raise InvalidUse(f"the map {self.name!r} needs a deterministic coder for its keys")


@dataclass(frozen=True)
class ReducingStateDescriptor(_Named, Generic[T]):
    """One value for each key, into which what is added is reduced (``ReducingStateDescriptor``)."""

    coder: Coder[T]
    reduce: Callable[[T, T], T]
    ttl: StateTtlConfig | None = None


class AggregateFunction(ABC, Generic[In, Acc, Out]):
    """How values are aggregated that need not be of the type of the result (``AggregateFunction``)."""

    @abstractmethod
    def create_accumulator(self) -> Acc:
        """Return the accumulator of no values."""

    @abstractmethod
    def add(self, value: In, accumulator: Acc) -> Acc:
        """Return the accumulator with one more value."""

    @abstractmethod
    def get_result(self, accumulator: Acc) -> Out:
        """Return the result of all values so far."""


@dataclass(frozen=True)
class AggregatingStateDescriptor(_Named, Generic[In, Acc, Out]):
    """One accumulator for each key (``AggregatingStateDescriptor``), which is what ``coder`` encodes."""

    coder: Coder[Acc]
    aggregate: AggregateFunction[In, Acc, Out]
    ttl: StateTtlConfig | None = None


@dataclass(frozen=True)
class OperatorStateDescriptor(_Named, Generic[T]):
    """One value of a task, with how it goes on under another number of tasks.

    Then ``merge`` makes one value of those of all tasks, in their order, and ``split`` makes of this as many as there
    are tasks now. Tasks that never updated the value take no part. Every new task does this for itself, so both have
    to return the same each time. Without them, the state allows no other number of tasks.
    """

    coder: Coder[T]
    default: T | None = None
    split: Callable[[T, int], Sequence[T]] | None = None
    merge: Callable[[Sequence[T]], T] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.split is None) != (self.merge is None):
            raise InvalidUse(f"the state {self.name!r} is split and merged by two functions, or by none")


KeyedDescriptor = (
    ValueStateDescriptor[Any]
    | ListStateDescriptor[Any]
    | MapStateDescriptor[Any, Any]
    | ReducingStateDescriptor[Any]
    | AggregatingStateDescriptor[Any, Any, Any]
)


class Kind(Enum):
    """What a state is. The values stand in checkpoints, followed by `_WITH_TTL` where values carry their time."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    SPLIT_LIST = "split list"
    UNION_LIST = "union list"
    BROADCAST = "broadcast"


def keyed_kind(descriptor: KeyedDescriptor) -> str:
    """Return the kind of a keyed state, as a checkpoint names it."""
    if isinstance(descriptor, ValueStateDescriptor):
        kind = Kind.VALUE
    elif isinstance(descriptor, ListStateDescriptor):
        kind = Kind.LIST
    elif isinstance(descriptor, MapStateDescriptor):
        kind = Kind.MAP
    elif isinstance(descriptor, ReducingStateDescriptor):
        kind = Kind.REDUCING
    else:
        kind = Kind.AGGREGATING
    return kind.value + (_WITH_TTL if descriptor.ttl is not None else "")


def base_kind(kind: str) -> Kind:
    """Return the kind that a checkpoint names, whether values carry their time or not. Raises `ValueError`."""
    return Kind(kind.removesuffix(_WITH_TTL))

"""Descriptors of states: the name, the encoding of values, their time to live, and how another number of tasks divides
the state. Also the kinds of states, which checkpoints record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from milepost.state.cells.lifetime import Clock, Lifetime
from milepost.state.coders import Coder
from milepost.state.errors import InvalidUse

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Acc = TypeVar("Acc")
Out = TypeVar("Out")

_MOST_NAME_BYTES = 180

KEYED = "keyed:"
"""The name of a keyed state's column family is this prefix and the name of the state."""

OPERATOR = "operator:"
"""The name of an operator state's column family is this prefix and the name of the state."""

_WITH_TTL = " with ttl"
_MILLISECOND = timedelta(milliseconds=1)


class UpdateType(Enum):
    """Which accesses to a value restart its lifetime (Flink's ``StateTtlConfig.UpdateType``)."""

    ON_CREATE_AND_WRITE = auto()
    ON_READ_AND_WRITE = auto()


class Visibility(Enum):
    """Whether a reader may get a value that has expired and was not removed yet (Flink's
    ``StateTtlConfig.StateVisibility``). A reader gets such a value at most once, because the read removes it.
    """

    NEVER_RETURN_EXPIRED = auto()
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = auto()


@dataclass(frozen=True)
class StateTtlConfig:
    """The lifetime of each value, each element of a list and each entry of a map, and the times at which expired values
    are removed. The settings are not part of a checkpoint, so they may change after a restore. But a state with values
    cannot begin or cease to have a time to live. With any settings, reading an expired value removes it.
    """

    ttl: timedelta
    """The time after which a value expires, from the start of its lifetime."""

    update: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    visibility: Visibility = Visibility.NEVER_RETURN_EXPIRED

    incremental: int = 0
    """How many other keys each access checks for expired values (``cleanupIncrementally``); 0 checks none."""

    for_every_record: bool = False
    """Whether each change of the current key checks ``incremental`` keys too (``runCleanupForEveryRecord``)."""

    full_snapshot: bool = False
    """Whether each snapshot first removes all expired values (``cleanupFullSnapshot``)."""

    def __post_init__(self) -> None:
        if self.ttl < _MILLISECOND:
            raise InvalidUse("a value lives for a millisecond at least")
        if self.incremental < 0 or (self.for_every_record and not self.incremental):
            raise InvalidUse("incremental clean-up looks at one key at least, each time")

    def lifetime(self, clock: Clock) -> Lifetime:
        """Return the `Lifetime`, the time to live and the effects of a read, of a state's values. ``clock`` is the
        clock of the task.
        """
        return Lifetime(
            self.ttl // _MILLISECOND,
            clock,
            clears_on_read=True,
            shows_expired=self.visibility is Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP,
            renews_on_read=self.update is UpdateType.ON_READ_AND_WRITE,
        )


@dataclass(frozen=True)
class _Named:
    name: str
    """The name of the state, unique among the keyed states, or among the operator states, of a task."""

    def __post_init__(self) -> None:
        if not 0 < len(self.name.encode(errors="replace")) <= _MOST_NAME_BYTES:
            raise InvalidUse(f"the name of a state has 1 to {_MOST_NAME_BYTES} bytes")


@dataclass(frozen=True)
class ValueStateDescriptor(_Named, Generic[T]):
    """Describes one value for each key (Flink's ``ValueStateDescriptor``). ``default`` is the value of a key without
    one; each reader gets a copy of it, made by the coder.
    """

    coder: Coder[T]
    default: T | None = None
    ttl: StateTtlConfig | None = None


@dataclass(frozen=True)
class ListStateDescriptor(_Named, Generic[T]):
    """Describes a list for each key, or for the task (Flink's ``ListStateDescriptor``). ``coder`` encodes an element; a
    list for the task cannot have a ``ttl``.
    """

    coder: Coder[T]
    ttl: StateTtlConfig | None = None


@dataclass(frozen=True)
class MapStateDescriptor(_Named, Generic[K, V]):
    """Describes a map for each key, or one for all tasks (Flink's ``MapStateDescriptor``). A map for all tasks cannot
    have a ``ttl``.
    """

    key_coder: Coder[K]
    value_coder: Coder[V]
    ttl: StateTtlConfig | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.key_coder.deterministic:
            raise InvalidUse(f"the map {self.name!r} needs a deterministic coder for its keys")


@dataclass(frozen=True)
class ReducingStateDescriptor(_Named, Generic[T]):
    """Describes one value for each key, which ``reduce`` combines with each added value (Flink's
    ``ReducingStateDescriptor``).
    """

    coder: Coder[T]
    reduce: Callable[[T, T], T]
    ttl: StateTtlConfig | None = None


class AggregateFunction(ABC, Generic[In, Acc, Out]):
    """Aggregates values into an accumulator, whose result may have another type (Flink's ``AggregateFunction``)."""

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
    """Describes one accumulator for each key (Flink's ``AggregatingStateDescriptor``); ``coder`` encodes the
    accumulator.
    """

    coder: Coder[Acc]
    aggregate: AggregateFunction[In, Acc, Out]
    ttl: StateTtlConfig | None = None


@dataclass(frozen=True)
class OperatorStateDescriptor(_Named, Generic[T]):
    """Describes one value of each task, and two functions that divide the values among another number of tasks.

    ``merge`` combines the values of all old tasks, in the order of the tasks, into one value, and ``split`` divides
    this value into one for each new task. Tasks that never set the value are left out. Every new task calls both
    functions itself, so both must return the same result each time. Without the functions, the number of tasks cannot
    change.
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
    """The kind of a state, such as a list or a map. A checkpoint records it as text, followed by `_WITH_TTL` if the
    state has a time to live, so that a task cannot continue a state as another kind.
    """

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    SPLIT_LIST = "split list"
    UNION_LIST = "union list"
    BROADCAST = "broadcast"


def keyed_kind(descriptor: KeyedDescriptor) -> str:
    """Return the text with which a checkpoint records the kind of a keyed state and whether it has a time to live."""
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
    """Return the kind for the text ``kind`` of a checkpoint, with or without a time to live. Raises ``ValueError`` for
    another text.
    """
    return Kind(kind.removesuffix(_WITH_TTL))

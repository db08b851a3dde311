"""Tags of state: an id, the kind of state, and the coders of its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Generic, TypeVar

from milepost.state.coders import Coder
from milepost.state.coders.framing import write_escaped
from milepost.state.dialects.beam.cells import Cell, StateKind
from milepost.state.dialects.beam.containers import BagState, MapState, MultimapState, OrderedListState, SetState
from milepost.state.dialects.beam.keys import check_deterministic
from milepost.state.dialects.beam.states import State
from milepost.state.dialects.beam.values import (
    CombineFn,
    CombiningState,
    ReducingState,
    TimestampCombiner,
    ValueState,
    WatermarkHoldState,
)
from milepost.state.errors import InvalidUse

S = TypeVar("S", bound=State)
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
InputT = TypeVar("InputT")
AccumT = TypeVar("AccumT")
OutputT = TypeVar("OutputT")


@dataclass(frozen=True)
class StateTag(Generic[S]):
    """The address of a cell within a namespace (Beam's ``StateTag``). `StateTags` makes them.

    Tags are equal if their ids, their kinds and whether they are system tags are equal: coders and functions do not
    matter, since only bytes are stored.
    """

    id: str
    kind: StateKind
    bind: Callable[[Cell], S] = field(compare=False, repr=False)
    """Makes the state object at the tag's place."""
    system: bool = False

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidUse("the id of a state has one character at least")

    @cached_property
    def key(self) -> bytes:
        """The tag as bytes, which follow its namespace. They are not a prefix of another tag's of the same kind."""
        try:
            return (b"s" if self.system else b"u") + write_escaped(self.id.encode())
        except UnicodeEncodeError as error:
            raise InvalidUse("the id of a state has half of a surrogate pair") from error


class StateTags:
    """Makes tags (``StateTags``)."""

    @staticmethod
    def value(id: str, coder: Coder[T]) -> StateTag[ValueState[T]]:
        """Return the tag of one value (``value``)."""
        return StateTag(id, StateKind.VALUE, partial(ValueState, coder=coder))

    @staticmethod
    def bag(id: str, coder: Coder[T]) -> StateTag[BagState[T]]:
        """Return the tag of a bag (``bag``)."""
        return StateTag(id, StateKind.BAG, partial(BagState, coder=coder))

    @staticmethod
    def set(id: str, coder: Coder[T]) -> StateTag[SetState[T]]:
        """Return the tag of a set (``set``). Raises `NotDeterministic`."""
        check_deterministic(coder, "the elements of a set")
        return StateTag(id, StateKind.SET, partial(SetState, coder=coder))

    @staticmethod
    def map(id: str, key_coder: Coder[K], value_coder: Coder[V]) -> StateTag[MapState[K, V]]:
        """Return the tag of a map (``map``). Raises `NotDeterministic`."""
        check_deterministic(key_coder, "the keys of a map")
        return StateTag(id, StateKind.MAP, partial(MapState, key_coder=key_coder, value_coder=value_coder))

    @staticmethod
    def multimap(id: str, key_coder: Coder[K], value_coder: Coder[V]) -> StateTag[MultimapState[K, V]]:
        """Return the tag of a multimap (``multimap``). Raises `NotDeterministic`."""
        check_deterministic(key_coder, "the keys of a multimap")
        return StateTag(id, StateKind.MULTIMAP, partial(MultimapState, key_coder=key_coder, value_coder=value_coder))

    @staticmethod
    def ordered_list(id: str, coder: Coder[T]) -> StateTag[OrderedListState[T]]:
        """Return the tag of a list that is ordered by time (``orderedList``)."""
        return StateTag(id, StateKind.ORDERED_LIST, partial(OrderedListState, coder=coder))

    @staticmethod
    def combining(
        id: str, accumulator_coder: Coder[AccumT], fn: CombineFn[InputT, AccumT, OutputT]
    ) -> StateTag[CombiningState[InputT, AccumT, OutputT]]:
        """Return the tag of an accumulator (``combiningValue``)."""
        return StateTag(id, StateKind.COMBINING, partial(CombiningState, coder=accumulator_coder, fn=fn))

    @staticmethod
    def reducing(id: str, coder: Coder[T], function: Callable[[T, T], T]) -> StateTag[ReducingState[T]]:
        """Return the tag of a value that ``function`` combines with each further one, in any order and grouping."""
        return StateTag(id, StateKind.REDUCING, partial(ReducingState, coder=coder, fold=function))

    @staticmethod
    def watermark_hold(id: str, timestamp_combiner: TimestampCombiner) -> StateTag[WatermarkHoldState]:
        """Return the tag of a hold of the watermark (``watermarkStateInternal``)."""
        bind = partial(WatermarkHoldState, timestamp_combiner=timestamp_combiner)
        return StateTag(id, StateKind.WATERMARK_HOLD, bind)

    @staticmethod
    def system_tag(tag: StateTag[S]) -> StateTag[S]:
        """Return the tag as a system tag, which never equals a user's tag (``makeSystemTagInternal``)."""
        return replace(tag, system=True)

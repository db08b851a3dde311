"""Beam state by key. A tag names a cell of state by an id and a kind of state, and `StateInternals` returns the cell
for each namespace and tag of a key. `take_over` copies the state of keys from older state stores when the number of
stores changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from milepost.state.coders import Coder
from milepost.state.coders.framing import read_escaped, write_escaped
from milepost.state.dialects.beam.cells import Cell, Cells, State, StateKind
from milepost.state.dialects.beam.containers import BagState, MapState, MultimapState, OrderedListState, SetState
from milepost.state.dialects.beam.namespaces import FIRST_WINDOW, StateNamespace, WindowNamespace
from milepost.state.dialects.beam.tables import PerKey, StateTable, check_deterministic
from milepost.state.dialects.beam.timers import BY_ID, OF_ALL, OF_KEY, WATERMARKS, TimerRows
from milepost.state.dialects.beam.values import (
    CombineFn,
    CombiningState,
    ReducingState,
    TimestampCombiner,
    ValueState,
    WatermarkHoldState,
)
from milepost.state.errors import InvalidUse
from milepost.state.store.contract.stores import ReadStateStore
from milepost.state.store.rows import after_prefix

S = TypeVar("S", bound=State)
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
InputT = TypeVar("InputT")
AccumT = TypeVar("AccumT")
OutputT = TypeVar("OutputT")


@dataclass(frozen=True)
class StateTag(Generic[S]):
    """The name of a cell of state within a namespace (Beam's ``StateTag``). `StateTags` makes tags. Two tags are equal
    if their ids and kinds are equal, and both or neither are system tags, that is, tags of the runner and not of the
    user. Coders and functions do not count, since the table stores only bytes.
    """

    id: str
    kind: StateKind
    bind: Callable[[Cell], S] = field(compare=False, repr=False)
    """Makes the state object for the tag's cell."""
    system: bool = False

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidUse("the id of a state has one character at least")

    @cached_property
    def key(self) -> bytes:
        """The tag as bytes, which follow the namespace in the keys of the table. The bytes of one tag are never a
        prefix of the bytes of another tag of the same kind.
        """
        try:
            return (b"s" if self.system else b"u") + write_escaped(self.id.encode())
        except UnicodeEncodeError as error:
            raise InvalidUse("the id of a state has half of a surrogate pair") from error


class StateTags:
    """Makes tags of state, with one method for each kind of state (Beam's ``StateTags``)."""

    @staticmethod
    def value(id: str, coder: Coder[T]) -> StateTag[ValueState[T]]:
        """Return the tag of one value (Beam's ``value``)."""
        return StateTag(id, StateKind.VALUE, partial(ValueState, coder=coder))

    @staticmethod
    def bag(id: str, coder: Coder[T]) -> StateTag[BagState[T]]:
        """Return the tag of a bag (Beam's ``bag``)."""
        return StateTag(id, StateKind.BAG, partial(BagState, coder=coder))

    @staticmethod
    def set(id: str, coder: Coder[T]) -> StateTag[SetState[T]]:
        """Return the tag of a set (Beam's ``set``). Raises `NotDeterministic` for a coder that may encode equal
        elements differently.
        """
        check_deterministic(coder, "the elements of a set")
        return StateTag(id, StateKind.SET, partial(SetState, coder=coder))

    @staticmethod
    def map(id: str, key_coder: Coder[K], value_coder: Coder[V]) -> StateTag[MapState[K, V]]:
        """Return the tag of a map (Beam's ``map``). Raises `NotDeterministic` for a coder that may encode equal keys
        differently.
        """
        check_deterministic(key_coder, "the keys of a map")
        return StateTag(id, StateKind.MAP, partial(MapState, key_coder=key_coder, value_coder=value_coder))

    @staticmethod
    def multimap(id: str, key_coder: Coder[K], value_coder: Coder[V]) -> StateTag[MultimapState[K, V]]:
        """Return the tag of a multimap (Beam's ``multimap``). Raises `NotDeterministic` for a coder that may encode
        equal keys differently.
        """
        check_deterministic(key_coder, "the keys of a multimap")
        return StateTag(id, StateKind.MULTIMAP, partial(MultimapState, key_coder=key_coder, value_coder=value_coder))

    @staticmethod
    def ordered_list(id: str, coder: Coder[T]) -> StateTag[OrderedListState[T]]:
        """Return the tag of a list that is sorted by time (Beam's ``orderedList``)."""
        return StateTag(id, StateKind.ORDERED_LIST, partial(OrderedListState, coder=coder))

    @staticmethod
    def combining(
        id: str, accumulator_coder: Coder[AccumT], fn: CombineFn[InputT, AccumT, OutputT]
    ) -> StateTag[CombiningState[InputT, AccumT, OutputT]]:
        """Return the tag of an accumulator into which ``fn`` combines the added values (Beam's ``combiningValue``)."""
        return StateTag(id, StateKind.COMBINING, partial(CombiningState, coder=accumulator_coder, fn=fn))

    @staticmethod
    def reducing(id: str, coder: Coder[T], function: Callable[[T, T], T]) -> StateTag[ReducingState[T]]:
        """Return the tag of a value that ``function`` combines with each added value, in any order and grouping."""
        return StateTag(id, StateKind.REDUCING, partial(ReducingState, coder=coder, fold=function))

    @staticmethod
    def watermark_hold(id: str, timestamp_combiner: TimestampCombiner) -> StateTag[WatermarkHoldState]:
        """Return the tag of a time at which the output watermark is held back (Beam's ``watermarkStateInternal``).
        ``timestamp_combiner`` combines several holds.
        """
        bind = partial(WatermarkHoldState, timestamp_combiner=timestamp_combiner)
        return StateTag(id, StateKind.WATERMARK_HOLD, bind)

    @staticmethod
    def system_tag(tag: StateTag[S]) -> StateTag[S]:
        """Return the system tag of the same id and kind. It never equals a user's tag (Beam's
        ``makeSystemTagInternal``).
        """
        return replace(tag, system=True)


class StateInternals(Generic[K]):
    """All state of one key: a cell for each namespace and tag (Beam's ``StateInternals``)."""

    def __init__(self, cells: Cells, key: K, prefix: bytes) -> None:
        """`StateInternalsFactory` makes these objects. The table keys of all cells of the key begin with ``prefix``."""
        self._cells = cells
        self._key = key
        self._prefix = prefix
        self._states: WeakValueDictionary[tuple[StateNamespace, StateTag[Any]], State] = WeakValueDictionary()

    @property
    def key(self) -> K:
        """The key to which the state belongs (Beam's ``getKey``)."""
        return self._key

    def state(self, namespace: StateNamespace, tag: StateTag[S]) -> S:
        """Return the cell of a tag in a namespace (Beam's ``state``). It is the same object for each call, as long as
        the caller holds a reference to it.
        """
        found: Any = self._states.get((namespace, tag))
        if found is None:
            found = tag.bind(Cell(self._cells, tag.kind, self._prefix + namespace.key + tag.key))
            self._states[namespace, tag] = found
        return found  # type: ignore[no-any-return]

    def clear(self, namespace: StateNamespace) -> None:
        """Empty all cells of a namespace; for the namespace of a window, those of the window's triggers too."""
        prefix = self._prefix + namespace.prefix
        self._delete(prefix, after_prefix(prefix))

    def clear_windows_before(self, namespace: WindowNamespace) -> None:
        """Empty all cells of the windows that sort before a window. `IntervalWindowCoder` sorts windows by their end,
        and windows of the same end by their start. Raises `InvalidUse` for a window whose coder is not ordered.
        """
        if not namespace.window_coder.ordered:
            raise InvalidUse(f"no window is before another as {type(namespace.window_coder).__name__} writes them")
        self._delete(self._prefix + FIRST_WINDOW, self._prefix + namespace.window_prefix)

    def earliest_watermark_hold(self) -> datetime | None:
        """Return the earliest hold of the watermark by this key, None without holds (Beam's
        ``getEarliestWatermarkHold``).
        """
        holds = self._cells.to_read().prefix_scan(self._prefix, StateKind.WATERMARK_HOLD.family)
        return min((WatermarkHoldState.coder.decode(hold) for _, hold in holds), default=None)

    def _delete(self, start: bytes, end: bytes | None) -> None:
        table = self._cells.to_change()
        for kind in StateKind:
            table.delete_range(start, end, kind.family)


class StateInternalsFactory(Generic[K]):
    """Returns the state of each key in one table (Beam's ``StateInternalsFactory``).

    If the table is a `StateStore`, its ``commit`` writes the state as the next version, and its ``abort`` drops the
    changes. A `HeapTable` keeps the state in memory. Use the factory only in the thread that uses the table. The
    factory owns the table's column families whose names begin with ``state:``.
    """

    def __init__(self, table: StateTable, key_coder: Coder[K]) -> None:
        """``key_coder`` encodes the keys of the state. Raises `NotDeterministic` if it may encode equal keys
        differently, and the errors of the table.
        """
        cells = Cells(table)
        self._keys: PerKey[K, StateInternals[K]] = PerKey(
            key_coder, lambda key, prefix: StateInternals(cells, key, prefix)
        )

    @property
    def key_coder(self) -> Coder[K]:
        """The coder of the keys."""
        return self._keys.coder

    def state_internals_for_key(self, key: K) -> StateInternals[K]:
        """Return the state of a key (Beam's ``stateInternalsForKey``). It is the same object for each call, as long as
        the caller holds a reference to it. Raises `CoderError` for a key that the coder refuses.
        """
        return self._keys.get(key)


def take_over(table: StateTable, older: Iterable[ReadStateStore], mine: Callable[[bytes], bool]) -> None:
    """Copy the state and the timers of some keys from older state stores into a new, empty table.

    ``mine`` returns whether an encoded key belongs to the new table. ``older`` has all stores that may have state of
    these keys; each is read completely. Each watermark becomes the earliest one of the older stores, and stays unset if
    one store has none. The copied rows stay in memory until the new table, a `StateStore`, is committed. Raises
    `CoderError`, and the errors of the stores.
    """
    watermarks: list[dict[bytes, bytes]] = []
    for source in older:
        there = source.all_column_family_names()
        for kind in StateKind:
            table.create_column_family_if_absent(kind.family, multiple_values_per_key=kind.multiple)
            if kind.family in there:
                pairs = source.iterator_with_multi_values if kind.multiple else source.iterator
                write = table.merge if kind.multiple else table.put
                for row, value in pairs(kind.family):
                    if mine(read_escaped(row, 0)[0]):
                        write(row, value, kind.family)
        for family in (BY_ID, OF_KEY, OF_ALL):
            table.create_column_family_if_absent(family)
            for row, value in source.iterator(family) if family in there else ():
                if mine(TimerRows.read_of_all(row)[0] if family == OF_ALL else read_escaped(row, 0)[0]):
                    table.put(row, value, family)
        watermarks.append(dict(source.iterator(WATERMARKS)) if WATERMARKS in there else {})
    table.create_column_family_if_absent(WATERMARKS)
    for name in set.intersection(*(set(each) for each in watermarks)) if watermarks else ():
        table.put(name, min(each[name] for each in watermarks), WATERMARKS)

"""Cells of Beam state: the interfaces that all kinds of state share, and the access to the table (a `StateTable`) that
keeps the cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from milepost.state.dialects.beam.tables import StateTable
from milepost.state.store.rows import after_prefix

OutputT = TypeVar("OutputT", covariant=True)
InputT = TypeVar("InputT", contravariant=True)
ReadableT = TypeVar("ReadableT", bound="ReadableState[Any]")
R = TypeVar("R")
LookupT = TypeVar("LookupT", bound="Lookup[Any]")


class ReadableState(ABC, Generic[OutputT]):
    """A state, or a view of a state, that can be read (Beam's ``ReadableState``)."""

    @abstractmethod
    def read(self) -> OutputT:
        """Return the value (Beam's ``read``)."""

    def read_later(self: ReadableT) -> ReadableT:
        """Announce a later read (Beam's ``readLater``): once one announced state is read, all announced states are read
        together. Only state under a single key can be announced: values, accumulators, holds, and single entries of
        maps and sets. For other state the call does nothing.
        """
        return self


class View(ReadableState[OutputT]):
    """A readable state that computes its value anew at each read."""

    def __init__(self, read: Callable[[], OutputT]) -> None:
        self._read = read

    def read(self) -> OutputT:
        return self._read()


class State(ABC):
    """One cell of state: what a tag names in a namespace of a key (Beam's ``State``). The object stores nothing itself.
    Its methods raise the errors of the table that keeps the cell, such as `StoreEnded` for a `StateStore` that has
    ended. A value that the coder refuses raises `CoderError`, and nothing is changed.
    """

    @abstractmethod
    def clear(self) -> None:
        """Make the cell empty (Beam's ``clear``)."""

    @abstractmethod
    def is_empty(self) -> ReadableState[bool]:
        """Return a readable state: whether the cell is empty at the time of each read (Beam's ``isEmpty``)."""


class GroupingState(State, ReadableState[OutputT], Generic[InputT, OutputT]):
    """A cell to which values are added, and whose read returns their combination (Beam's ``GroupingState``)."""

    @abstractmethod
    def add(self, value: InputT) -> None:
        """Add a value (Beam's ``add``)."""


class StateKind(Enum):
    """The kinds of state. Each kind has its own column family, so one tag id with two kinds names two cells."""

    VALUE = "value"
    BAG = "bag"
    SET = "set"
    MAP = "map"
    MULTIMAP = "multimap"
    ORDERED_LIST = "ordered list"
    COMBINING = "combining"
    REDUCING = "reducing"
    WATERMARK_HOLD = "watermark hold"

    @property
    def family(self) -> str:
        """The name of the column family that keeps the cells of this kind."""
        return f"state: {self.value}"

    @property
    def multiple(self) -> bool:
        """Whether a key of the column family has a list of values, so that a value is added without reading the
        list.
        """
        return self in (StateKind.BAG, StateKind.MULTIMAP, StateKind.ORDERED_LIST)


_Place = tuple[StateKind, bytes]


class Cells:
    """Makes every read and every change of the cells of a table. Reads of single keys can be announced; all announced
    keys are then read together. A `Lookup` shows the value that a key had when the lookup was made, even if it is read
    later. So before each change, all lookups that have no value yet are read.
    """

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self._announced: dict[_Place, None] = {}
        self._read: dict[_Place, bytes | None] = {}
        self._lookups: WeakSet[Lookup[Any]] = WeakSet()
        for kind in StateKind:
            table.create_column_family_if_absent(kind.family, multiple_values_per_key=kind.multiple)

    def get(self, place: _Place) -> bytes | None:
        """Return the value at a place (a kind and a key), None if there is none. All announced places are read at the
        same time.
        """
        if place in self._read:
            return self._read.pop(place)
        if not self._announced:
            return self._table.get(place[1], place[0].family)
        self._read_together(place)
        return self._read.pop(place)

    def announce(self, place: _Place) -> None:
        """Announce that a place (a kind and a key) will be read: the next read of any place reads this one too."""
        if place not in self._read:
            self._announced[place] = None

    def lookup(self, place: _Place, decode: Callable[[bytes | None], R]) -> Lookup[R]:
        """Return a `Lookup` of the value that a place (a kind and a key) has now. ``decode`` makes the result from the
        value's bytes, or from None if there is no value.
        """
        found = Lookup(self, place, decode)
        self._lookups.add(found)
        return found

    def looked_up(self, lookup: Lookup[R]) -> None:
        """Stop tracking a lookup that has its value, and so need not be read before the next change."""
        self._lookups.discard(lookup)

    def to_change(self, place: _Place | None = None) -> StateTable:
        """Return the table to a caller that is about to change a place; None stands for any number of places. Before
        that, read all lookups that have no value yet, because they must show the value before the change.
        """
        pending = list(self._lookups)
        if pending:
            self._read_together(*(one.place for one in pending))
            for one in pending:
                one.settle(self._read[one.place])
            for one in pending:
                self._read.pop(one.place, None)
        if place is None:
            self._read.clear()
        else:
            self._read.pop(place, None)
        return self._table

    def to_read(self) -> StateTable:
        """Return the table for a read of many values, which cannot be announced: a list, a range of keys, or whether a
        key exists.
        """
        return self._table

    def _read_together(self, *places: _Place) -> None:
        wanted: defaultdict[StateKind, list[bytes]] = defaultdict(list)
        for kind, key in {**self._announced, **dict.fromkeys(places)}:
            if (kind, key) not in self._read:
                wanted[kind].append(key)
        for kind, keys in wanted.items():
            values = self._table.multi_get(keys, kind.family)
            self._read.update(((kind, key), value) for key, value in zip(keys, values, strict=True))
        self._announced.clear()


class Lookup(ReadableState[R], Generic[R]):
    """The value that a key had when the lookup was made, even if it is read later."""

    def __init__(self, cells: Cells, place: _Place, decode: Callable[[bytes | None], R]) -> None:
        self._cells = cells
        self.place = place
        self._decode = decode
        self._settled = False
        self._value: bytes | None = None

    def read(self) -> R:
        if not self._settled:
            self.settle(self._cells.get(self.place))
        return self._decode(self._value)

    def read_later(self: LookupT) -> LookupT:
        if not self._settled:
            self._cells.announce(self.place)
        return self

    def settle(self, value: bytes | None) -> None:
        """Complete this pending read with the value that its key had when it was announced; None if it had none. Later
        reads of this object return that value. The state is not changed.
        """
        self._value = value
        self._settled = True
        self._cells.looked_up(self)


class Cell:
    """One cell of a table: a row under the cell's own key, and a row for each part of the cell, in the column family of
    the cell's kind. The key of a part is the cell's key with more bytes behind it, such as the encoded key of a map
    entry.
    """

    def __init__(self, cells: Cells, kind: StateKind, key: bytes) -> None:
        self._cells = cells
        self._kind = kind
        self._family = kind.family
        self._key = key

    def get(self, part: bytes = b"") -> bytes | None:
        """Return the single value of the cell or, if ``part`` is not empty, of that part of it; None if there is
        none.
        """
        return self._cells.get((self._kind, self._key + part))

    def announce(self) -> None:
        """Announce the cell's single value: the next read of any cell reads it too."""
        self._cells.announce((self._kind, self._key))

    def lookup(self, part: bytes, decode: Callable[[bytes | None], R]) -> Lookup[R]:
        """Return a `Lookup` of the value that a part of the cell has now. ``decode`` makes the result from the value's
        bytes, or from None if there is no value.
        """
        return self._cells.lookup((self._kind, self._key + part), decode)

    def put(self, value: bytes, part: bytes = b"") -> None:
        """Set the single value of the cell or, if ``part`` is not empty, of that part of it."""
        self._to_change(part).put(self._key + part, value, self._family)

    def append(self, value: bytes, part: bytes = b"") -> None:
        """Append a value to the list of the cell or, if ``part`` is not empty, of that part of it, without reading the
        list.
        """
        self._to_change(part).merge(self._key + part, value, self._family)

    def remove(self, part: bytes = b"") -> None:
        """Remove the values under the cell's own key or, if ``part`` is not empty, those of that part of it."""
        self._to_change(part).remove(self._key + part, self._family)

    def remove_parts(self, start: bytes = b"", end: bytes | None = None) -> None:
        """Remove the parts from ``start`` up to, but not including, ``end``; by default all parts."""
        self._cells.to_change().delete_range(*self._range(start, end), self._family)

    def values(self, part: bytes = b"") -> Iterator[bytes]:
        """Iterate over the list of the cell or, if ``part`` is not empty, of that part of it."""
        return self._cells.to_read().values_iterator(self._key + part, self._family)

    def parts(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all parts, sorted by their bytes, each with its single value."""
        found = self._cells.to_read().prefix_scan(self._key, self._family)
        return ((key[len(self._key) :], value) for key, value in found)

    def parts_with_values(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all values of the parts from ``start`` up to, but not including, ``end``, each with its part,
        sorted by part; by default over those of all parts.
        """
        found = self._cells.to_read().range_scan_with_multi_values(*self._range(start, end), self._family)
        return ((key[len(self._key) :], value) for key, value in found)

    def is_absent(self, part: bytes = b"") -> ReadableState[bool]:
        """Return a readable state: whether the cell's own key, or a part, has no value at the time of each read."""
        return View(lambda: not self._cells.to_read().key_exists(self._key + part, self._family))

    def has_no_parts(self) -> ReadableState[bool]:
        """Return a readable state: whether the cell has no part at the time of each read."""
        read = self.parts_with_values if self._kind.multiple else self.parts
        return View(lambda: next(read(), None) is None)

    def _to_change(self, part: bytes) -> StateTable:
        return self._cells.to_change((self._kind, self._key + part))

    def _range(self, start: bytes, end: bytes | None) -> tuple[bytes, bytes | None]:
        return self._key + start, after_prefix(self._key) if end is None else self._key + end

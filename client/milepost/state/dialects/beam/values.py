"""State that is one value under one key: values, accumulators, and holds of the watermark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar

from milepost.state.coders import Coder, TimestampCoder
from milepost.state.dialects.beam.cells import Cell
from milepost.state.dialects.beam.combining import CombineFn, TimestampCombiner
from milepost.state.dialects.beam.states import GroupingState, ReadableState, State

T = TypeVar("T")
InputT = TypeVar("InputT")
AccumT = TypeVar("AccumT")
OutputT = TypeVar("OutputT")
OneT = TypeVar("OneT", bound="_OneValue[Any]")


class _OneValue(State, Generic[T]):
    """A cell that has one value, encoded, or none."""

    def __init__(self, cell: Cell, coder: Coder[T]) -> None:
        self._cell = cell
        self._coder = coder

    def clear(self) -> None:
        self._cell.remove()

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.is_absent()

    def read_later(self: OneT) -> OneT:
        self._cell.announce()
        return self

    def _get(self) -> T | None:
        found = self._cell.get()
        return None if found is None else self._coder.decode(found)

    def _put(self, value: T) -> None:
        self._cell.put(self._coder.encode(value))


class ValueState(_OneValue[T], ReadableState["T | None"]):
    """A value, or none (Beam's ``ValueState``)."""

    def read(self) -> T | None:
        """Return the value, or None if there is none (``read``)."""
        return self._get()

    def write(self, value: T) -> None:
        """Set the value (``write``). Raises `CoderError`."""
        self._put(value)


class CombiningState(_OneValue[AccumT], GroupingState[InputT, OutputT], Generic[InputT, AccumT, OutputT]):
    """The accumulator of a `CombineFn` (``CombiningState``). What the function raises goes to the caller."""

    def __init__(self, cell: Cell, coder: Coder[AccumT], fn: CombineFn[InputT, AccumT, OutputT]) -> None:
        super().__init__(cell, coder)
        self._fn = fn

    def read(self) -> OutputT:
        """Return the output, of no inputs if none was added (``read``)."""
        return self._fn.extract_output(self.get_accum())

    def add(self, value: InputT) -> None:
        self._put(self._fn.add_input(self.get_accum(), value))

    def get_accum(self) -> AccumT:
        """Return a copy of the accumulator (``getAccum``)."""
        found = self._cell.get()
        return self._fn.create_accumulator() if found is None else self._coder.decode(found)

    def add_accum(self, accumulator: AccumT) -> None:
        """Add all inputs that an accumulator has (``addAccum``)."""
        self._put(self._fn.merge_accumulators([self.get_accum(), accumulator]))

    def merge_accumulators(self, accumulators: Iterable[AccumT]) -> AccumT:
        """Return one accumulator for several, without changing the cell (``mergeAccumulators``)."""
        return self._fn.merge_accumulators(accumulators)


class _Folded(_OneValue[T], GroupingState[T, "T | None"]):
    """A value to which each further one is added by a function of two."""

    @abstractmethod
    def _fold(self, one: T, other: T) -> T:
        """Return one value for two."""

    def read(self) -> T | None:
        """Return what all values come to, or None if none was added (``read``)."""
        return self._get()

    def add(self, value: T) -> None:
        found = self._cell.get()
        self._put(value if found is None else self._fold(self._coder.decode(found), value))


class ReducingState(_Folded[T]):
    """A value to which each further one is added by a function of two (Flink's ``ReducingState``)."""

    def __init__(self, cell: Cell, coder: Coder[T], function: Callable[[T, T], T]) -> None:
        super().__init__(cell, coder)
        self._function = function

    def _fold(self, one: T, other: T) -> T:
        return self._function(one, other)


class WatermarkHoldState(_Folded[datetime]):
    """The point in time at which the output watermark is held (``WatermarkHoldState``). It comes back in UTC."""

    coder = TimestampCoder()

    def __init__(self, cell: Cell, timestamp_combiner: TimestampCombiner) -> None:
        super().__init__(cell, self.coder)
        self._timestamp_combiner = timestamp_combiner

    @property
    def timestamp_combiner(self) -> TimestampCombiner:
        """How several holds become one (``getTimestampCombiner``)."""
        return self._timestamp_combiner

    def add(self, value: datetime) -> None:
        self._coder.encode(value)  # a time without a zone cannot be compared
        super().add(value)

    def _fold(self, one: datetime, other: datetime) -> datetime:
        return self._timestamp_combiner.combine([one, other])

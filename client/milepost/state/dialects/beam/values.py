"""Cells with a single value: values, accumulators and holds of the watermark; and the functions that combine values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeVar

from milepost.state.cells.states import Folded, OneValue
from milepost.state.coders import Coder, TimestampCoder
from milepost.state.dialects.beam.cells import Cell, GroupingState, ReadableState, State
from milepost.state.dialects.beam.namespaces import BoundedWindow

InputT = TypeVar("InputT")
AccumT = TypeVar("AccumT")
OutputT = TypeVar("OutputT")

T = TypeVar("T")
OneT = TypeVar("OneT", bound="_Single[Any]")


class CombineFn(ABC, Generic[InputT, AccumT, OutputT]):
    """Combines inputs into an accumulator, and computes an output from an accumulator (Beam's ``Combine.CombineFn``).
    Inputs and accumulators come in any order and grouping, so the function must be associative and commutative. A
    method may change its arguments and return one of them.
    """

    @abstractmethod
    def create_accumulator(self) -> AccumT:
        """Return the accumulator of no inputs (Beam's ``createAccumulator``)."""

    @abstractmethod
    def add_input(self, accumulator: AccumT, element: InputT) -> AccumT:
        """Return the accumulator with one more input (Beam's ``addInput``)."""

    @abstractmethod
    def merge_accumulators(self, accumulators: Iterable[AccumT]) -> AccumT:
        """Return one accumulator for the inputs of all ``accumulators`` (Beam's ``mergeAccumulators``)."""

    @abstractmethod
    def extract_output(self, accumulator: AccumT) -> OutputT:
        """Return the output for the inputs that ``accumulator`` contains (Beam's ``extractOutput``)."""


class TimestampCombiner(Enum):
    """The way in which the times of several elements become the time of their result (Beam's ``TimestampCombiner``)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    END_OF_WINDOW = "end of window"

    def assign(self, window: BoundedWindow, timestamp: datetime) -> datetime:
        """Return the time of a result that has only one element, with this ``timestamp`` (Beam's ``assign``)."""
        return self.merge(window, [timestamp])

    def combine(self, timestamps: Iterable[datetime]) -> datetime:
        """Return the combined time of one or more times of one window, which `assign` has returned (Beam's
        ``combine``). With ``END_OF_WINDOW`` all these times are the end of the window, so this returns the first.
        """
        if self is TimestampCombiner.END_OF_WINDOW:
            return next(iter(timestamps))
        return min(timestamps) if self is TimestampCombiner.EARLIEST else max(timestamps)

    def merge(self, window: BoundedWindow, timestamps: Iterable[datetime]) -> datetime:
        """Return the combined time of one or more times, whose windows were merged into ``window`` (Beam's
        ``merge``).
        """
        return window.max_timestamp() if self.depends_only_on_window else self.combine(timestamps)

    @property
    def depends_only_on_window(self) -> bool:
        """Whether the result is the same for all times of a window (Beam's ``dependsOnlyOnWindow``)."""
        return self is TimestampCombiner.END_OF_WINDOW


class _Single(OneValue[T], State):
    """A cell with one encoded value, or none, whose read can be announced."""

    _cell: Cell

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.is_absent()

    def read_later(self: OneT) -> OneT:
        self._cell.announce()
        return self


class ValueState(_Single[T], ReadableState["T | None"]):
    """A cell with a value, or none (Beam's ``ValueState``)."""

    def read(self) -> T | None:
        """Return the value, or None if there is none (Beam's ``read``)."""
        return self._get()

    def write(self, value: T) -> None:
        """Set the value (Beam's ``write``). Raises `CoderError` for a value that the coder refuses."""
        self._put(value)


class CombiningState(_Single[AccumT], GroupingState[InputT, OutputT], Generic[InputT, AccumT, OutputT]):
    """The accumulator of a `CombineFn` (Beam's ``CombiningState``). Exceptions of the function reach the caller."""

    def __init__(self, cell: Cell, coder: Coder[AccumT], fn: CombineFn[InputT, AccumT, OutputT]) -> None:
        super().__init__(cell, coder)
        self._fn = fn

    def read(self) -> OutputT:
        """Return the output for the inputs so far; without inputs, the output of the empty accumulator (Beam's
        ``read``).
        """
        return self._fn.extract_output(self.get_accum())

    def add(self, value: InputT) -> None:
        self._put(self._fn.add_input(self.get_accum(), value))

    def get_accum(self) -> AccumT:
        """Return a copy of the accumulator (Beam's ``getAccum``)."""
        found = self._cell.get()
        return self._fn.create_accumulator() if found is None else self._coder.decode(found)

    def add_accum(self, accumulator: AccumT) -> None:
        """Add all inputs of an accumulator (Beam's ``addAccum``)."""
        self._put(self._fn.merge_accumulators([self.get_accum(), accumulator]))

    def merge_accumulators(self, accumulators: Iterable[AccumT]) -> AccumT:
        """Return one accumulator for several; the cell does not change (Beam's ``mergeAccumulators``)."""
        return self._fn.merge_accumulators(accumulators)


class ReducingState(Folded[T], _Single[T], GroupingState[T, "T | None"]):
    """A value that a function combines with each added value (Flink's ``ReducingState``)."""

    def read(self) -> T | None:
        """Return the combination of all values, or None if none was added (Beam's ``read``)."""
        return self._get()


class WatermarkHoldState(ReducingState[datetime]):
    """The time at which a key holds the output watermark back (Beam's ``WatermarkHoldState``). Reads return it in
    UTC.
    """

    coder = TimestampCoder()

    def __init__(self, cell: Cell, timestamp_combiner: TimestampCombiner) -> None:
        super().__init__(cell, self.coder, lambda one, other: timestamp_combiner.combine([one, other]))
        self._timestamp_combiner = timestamp_combiner

    @property
    def timestamp_combiner(self) -> TimestampCombiner:
        """The way in which several holds are combined into one (Beam's ``getTimestampCombiner``)."""
        return self._timestamp_combiner

    def add(self, value: datetime) -> None:
        self._coder.encode(value)  # raises CoderError for a time without a zone, which cannot be compared
        super().add(value)

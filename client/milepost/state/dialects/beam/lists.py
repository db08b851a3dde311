"""State that is a list: bags, and lists that are ordered by time. Adding writes what was added, and reads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from milepost.state.coders import Coder, TimestampCoder
from milepost.state.dialects.beam.cells import Cell
from milepost.state.dialects.beam.states import GroupingState, ReadableState

T = TypeVar("T")


class BagState(GroupingState[T, Iterator[T]]):
    """Values in the order in which they were added (Beam's ``BagState``, which has no order; Flink's ``ListState``)."""

    def __init__(self, cell: Cell, coder: Coder[T]) -> None:
        self._cell = cell
        self._coder = coder

    def read(self) -> Iterator[T]:
        """Iterate the values that are there now (``read``)."""
        return map(self._coder.decode, self._cell.values())

    def add(self, value: T) -> None:
        self._cell.append(self._coder.encode(value))

    def clear(self) -> None:
        self._cell.remove()

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.is_absent()


@dataclass(frozen=True)
class TimestampedValue(Generic[T]):
    """A value at a point in time (``TimestampedValue``)."""

    value: T
    timestamp: datetime


class OrderedListState(GroupingState[TimestampedValue[T], Iterator[TimestampedValue[T]]]):
    """Values at points in time, in their order; those of the same time in the order they were added
    (Beam's ``OrderedListState``).

    A range is the times from ``min_timestamp`` on and before ``limit_timestamp``; only its own values are read.
    """

    _time = TimestampCoder()

    def __init__(self, cell: Cell, coder: Coder[T]) -> None:
        self._cell = cell
        self._coder = coder

    def read(self) -> Iterator[TimestampedValue[T]]:
        """Iterate all values that are there now (``read``)."""
        return self._decoded(self._cell.parts_with_values())

    def read_range(self, min_timestamp: datetime, limit_timestamp: datetime) -> Iterator[TimestampedValue[T]]:
        """Iterate the values of a range (``readRange``)."""
        start, end = self._time.encode(min_timestamp), self._time.encode(limit_timestamp)
        return self._decoded(self._cell.parts_with_values(start, end)) if start < end else iter(())

    def clear_range(self, min_timestamp: datetime, limit_timestamp: datetime) -> None:
        """Remove the values of a range (``clearRange``)."""
        start, end = self._time.encode(min_timestamp), self._time.encode(limit_timestamp)
        if start < end:
            self._cell.remove_parts(start, end)

    def add(self, value: TimestampedValue[T]) -> None:
        self._cell.append(self._coder.encode(value.value), self._time.encode(value.timestamp))

    def clear(self) -> None:
        self._cell.remove_parts()

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.has_no_parts()

    def _decoded(self, parts: Iterator[tuple[bytes, bytes]]) -> Iterator[TimestampedValue[T]]:
        return (TimestampedValue(self._coder.decode(value), self._time.decode(time)) for time, value in parts)

"""How values are combined into one: functions over accumulators, and of points in time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Generic, TypeVar

from milepost.state.dialects.beam.windows import BoundedWindow

InputT = TypeVar("InputT")
AccumT = TypeVar("AccumT")
OutputT = TypeVar("OutputT")


class CombineFn(ABC, Generic[InputT, AccumT, OutputT]):
    """Combines inputs into an accumulator, and an accumulator into an output (Beam's ``Combine.CombineFn``).

    Inputs and accumulators come in any order and grouping, so the function has to be associative and commutative. What
    it is given it may change and return.
    """

    @abstractmethod
    def create_accumulator(self) -> AccumT:
        """Return the accumulator of no inputs (``createAccumulator``)."""

    @abstractmethod
    def add_input(self, accumulator: AccumT, element: InputT) -> AccumT:
        """Return the accumulator with one more input (``addInput``)."""

    @abstractmethod
    def merge_accumulators(self, accumulators: Iterable[AccumT]) -> AccumT:
        """Return one accumulator for all inputs of several (``mergeAccumulators``)."""

    @abstractmethod
    def extract_output(self, accumulator: AccumT) -> OutputT:
        """Return what the inputs come to (``extractOutput``)."""


class TimestampCombiner(Enum):
    """How the points in time of several elements become that of their result (Beam's ``TimestampCombiner``)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    END_OF_WINDOW = "end of window"

    def assign(self, window: BoundedWindow, timestamp: datetime) -> datetime:
        """Return the time that the result has if ``timestamp`` is that of the one element (``assign``)."""
        return self.merge(window, [timestamp])

    def combine(self, timestamps: Iterable[datetime]) -> datetime:
        """Return the time for several, at least one, each of them assigned to the same window (``combine``).

        At the end of the window all of them are equal, so the first is taken.
        """
        if self is TimestampCombiner.END_OF_WINDOW:
            return next(iter(timestamps))
        return min(timestamps) if self is TimestampCombiner.EARLIEST else max(timestamps)

    def merge(self, window: BoundedWindow, timestamps: Iterable[datetime]) -> datetime:
        """Return the time for several, at least one, once their windows are merged into ``window`` (``merge``)."""
        return window.max_timestamp() if self.depends_only_on_window else self.combine(timestamps)

    @property
    def depends_only_on_window(self) -> bool:
        """Whether the elements' own times do not matter (``dependsOnlyOnWindow``)."""
        return self is TimestampCombiner.END_OF_WINDOW

"""Windows of time, and the coders that encode them in keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from milepost.state.coders import Coder, CoderError, TimestampCoder, TupleCoder

TIMESTAMP_MIN_VALUE = datetime.min.replace(tzinfo=timezone.utc)
"""The earliest time, for a watermark that was never advanced (Beam's name for it)."""

TIMESTAMP_MAX_VALUE = datetime.max.replace(tzinfo=timezone.utc)
"""The latest time, for a watermark after which nothing comes (Beam's name for it)."""

_RESOLUTION = timedelta(microseconds=1)


class BoundedWindow(ABC):
    """A window that ends (Beam's ``BoundedWindow``). Equal windows share their state."""

    @abstractmethod
    def max_timestamp(self) -> datetime:
        """Return the last time in the window (``maxTimestamp``)."""


@dataclass(frozen=True)
class GlobalWindow(BoundedWindow):
    """The single window that contains all times (``GlobalWindow``)."""

    def max_timestamp(self) -> datetime:
        return TIMESTAMP_MAX_VALUE - timedelta(days=1)  # as in Beam, so that a watermark can pass it


@dataclass(frozen=True)
class IntervalWindow(BoundedWindow):
    """The times from ``start`` up to, but not including, ``end``, both with a time zone (``IntervalWindow``)."""

    start: datetime
    end: datetime

    def max_timestamp(self) -> datetime:
        return self.end - _RESOLUTION


class GlobalWindowCoder(Coder[GlobalWindow]):
    """Encodes the global window as no bytes."""

    deterministic = True
    ordered = True
    width = 0

    def encode(self, value: GlobalWindow) -> bytes:
        if type(value) is not GlobalWindow:
            raise CoderError(f"this coder takes the global window, not {type(value).__name__}")
        return b""

    def decode(self, data: bytes) -> GlobalWindow:
        if data:
            raise CoderError("the global window has no bytes")
        return GlobalWindow()


class IntervalWindowCoder(Coder[IntervalWindow]):
    """Encodes an interval window as 16 bytes, the end first: so windows sort by their end, and then by their start."""

    deterministic = True
    ordered = True
    width = 16

    _times = TupleCoder(TimestampCoder(), TimestampCoder())

    def encode(self, value: IntervalWindow) -> bytes:
        if type(value) is not IntervalWindow:
            raise CoderError(f"this coder takes an IntervalWindow, not {type(value).__name__}")
        data = self._times.encode((value.end, value.start))
        if value.start >= value.end:
            raise CoderError(f"a window ends after it starts: {value}")
        return data

    def decode(self, data: bytes) -> IntervalWindow:
        end, start = self._times.decode(data)
        return IntervalWindow(start, end)

"""What a timer is, and its form as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from functools import total_ordering
from typing import Any

from milepost.state.coders import Coder, CoderError, TimestampCoder
from milepost.state.coders.escaped import read_escaped, write_escaped
from milepost.state.dialects.beam.keys import check_deterministic
from milepost.state.dialects.beam.namespaces import StateNamespace, StateNamespaces, WindowNamespace
from milepost.state.errors import InvalidUse

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME = TimestampCoder()
_TIME_BYTES = 8


class TimeDomain(Enum):
    """What time a timer waits for (Beam's ``TimeDomain``). The numbers stand in states."""

    EVENT_TIME = 0
    """The input watermark: how far the data are."""

    PROCESSING_TIME = 1
    """The clock of whoever processes them."""

    SYNCHRONIZED_PROCESSING_TIME = 2
    """The earliest clock among those that process what comes before."""


@total_ordering
@dataclass(frozen=True)
class TimerData:
    """A timer (``TimerInternals.TimerData``).

    Timers sort by time, and then by everything else (``compareTo``).
    """

    timer_id: str
    namespace: StateNamespace
    timestamp: datetime
    """The time after which it fires."""
    domain: TimeDomain
    output_timestamp: datetime
    """The time of what is put out when it fires."""
    timer_family_id: str = ""

    @staticmethod
    def of(namespace: StateNamespace, timestamp: datetime, domain: TimeDomain) -> TimerData:
        """Return a timer whose id is made of its domain and time, so that the same one is set once (``of``).

        Raises `CoderError` for a time without a time zone.
        """
        _TIME.encode(timestamp)  # which refuses a time without a zone
        microseconds = (timestamp - _EPOCH) // timedelta(microseconds=1)
        return TimerData(f"{domain.value}:{microseconds}", namespace, timestamp, domain, timestamp)

    def __lt__(self, other: TimerData) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[Any, ...]:
        return (
            self.timestamp,
            self.output_timestamp,
            self.domain.value,
            self.timer_id,
            self.timer_family_id,
            self.namespace.key,
        )


class TimerDataCoder(Coder[TimerData]):
    """A timer as bytes that sort as timers do (``TimerDataCoder``). Times come back in UTC."""

    deterministic = True
    ordered = True

    def __init__(self, window_coder: Coder[Any]) -> None:
        """``window_coder`` is the coder of the windows of all timers. Raises `NotDeterministic`."""
        check_deterministic(window_coder, "the windows of timers")
        self._windows = window_coder

    def encode(self, value: TimerData) -> bytes:
        """Return the bytes of a timer. Raises `CoderError`, also for a window that was encoded by another coder."""
        namespace = value.namespace
        if isinstance(namespace, WindowNamespace) and self._windows.encode(namespace.window) != namespace.window_bytes:
            raise CoderError(f"the window of the timer {value.timer_id!r} is written by another coder")
        return b"".join((
            _TIME.encode(value.timestamp),
            _TIME.encode(value.output_timestamp),
            bytes((value.domain.value,)),
            id_bytes(value.timer_id, value.timer_family_id),
            namespace.key,
        ))  # fmt: skip

    def decode(self, data: bytes) -> TimerData:
        domains = data[2 * _TIME_BYTES : 2 * _TIME_BYTES + 1]
        if domains not in (b"\0", b"\1", b"\2"):
            raise CoderError("these bytes are no timer")
        timer_id, start = read_escaped(data, 2 * _TIME_BYTES + 1)
        family_id, start = read_escaped(data, start)
        try:
            ids = timer_id.decode(), family_id.decode()
        except UnicodeDecodeError as error:
            raise CoderError("the id of a timer is no UTF-8") from error
        return TimerData(
            ids[0],
            StateNamespaces.from_bytes(data[start:], self._windows),
            _TIME.decode(data[:_TIME_BYTES]),
            TimeDomain(domains[0]),
            _TIME.decode(data[_TIME_BYTES : 2 * _TIME_BYTES]),
            ids[1],
        )


def id_bytes(timer_id: str, timer_family_id: str) -> bytes:
    """Return the bytes of the two ids of a timer. Raises `InvalidUse`."""
    try:
        return write_escaped(timer_id.encode()) + write_escaped(timer_family_id.encode())
    except UnicodeEncodeError as error:
        raise InvalidUse("the id of a timer has half of a surrogate pair") from error

"""Beam timers: their data, their rows in a table, and the queues that return due timers in order. A timer has three
rows. The row under its key, namespace and ids finds the timer. The row in the queue of its key, and the row in the
queue of all keys, sort by the timer's domain and time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from functools import total_ordering
from typing import Any

from milepost.state.coders import Coder, CoderError, TimestampCoder
from milepost.state.coders.framing import read_escaped, write_escaped
from milepost.state.dialects.beam.namespaces import StateNamespace, StateNamespaces, WindowNamespace
from milepost.state.dialects.beam.tables import StateTable, check_deterministic
from milepost.state.errors import InvalidUse
from milepost.state.store.rows import after_prefix

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME = TimestampCoder()
_TIME_BYTES = 8

BY_ID = "timers: by id"
OF_KEY = "timers: of one key"
OF_ALL = "timers: of all keys"
WATERMARKS = "timers: watermarks"


class TimeDomain(Enum):
    """The kind of time for which a timer waits (Beam's ``TimeDomain``). Stored timers contain the numbers of the
    domains, which must not change.
    """

    EVENT_TIME = 0
    """The input watermark: the progress of the data."""

    PROCESSING_TIME = 1
    """The clock of the task that processes the data."""

    SYNCHRONIZED_PROCESSING_TIME = 2
    """The earliest clock among the tasks that process earlier stages."""


@total_ordering
@dataclass(frozen=True)
class TimerData:
    """A timer (Beam's ``TimerInternals.TimerData``). Timers sort by their time, and timers of the same time by their
    other fields (Beam's ``compareTo``).
    """

    timer_id: str
    namespace: StateNamespace
    timestamp: datetime
    """The time after which the timer fires."""
    domain: TimeDomain
    output_timestamp: datetime
    """The timestamp of the output that the timer causes when it fires."""
    timer_family_id: str = ""

    @staticmethod
    def of(namespace: StateNamespace, timestamp: datetime, domain: TimeDomain) -> TimerData:
        """Return a timer whose id is made from its domain and time, so that setting it twice sets only one timer
        (Beam's ``of``). Raises `CoderError` for a time without a time zone.
        """
        _TIME.encode(timestamp)  # raises CoderError for a time without a zone
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
    """Encodes a timer as bytes that sort as timers do (Beam's ``TimerDataCoder``). Decoded times are in UTC."""

    deterministic = True
    ordered = True

    def __init__(self, window_coder: Coder[Any]) -> None:
        """``window_coder`` encodes the windows of all timers. Raises `NotDeterministic` if it may encode equal windows
        differently.
        """
        check_deterministic(window_coder, "the windows of timers")
        self._windows = window_coder

    def encode(self, value: TimerData) -> bytes:
        """Return the bytes of a timer. Raises `CoderError`, for example for a window that another coder encoded."""
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
    """Return the two ids of a timer as bytes. Raises `InvalidUse` for an id that UTF-8 cannot encode."""
    try:
        return write_escaped(timer_id.encode()) + write_escaped(timer_family_id.encode())
    except UnicodeEncodeError as error:
        raise InvalidUse("the id of a timer has half of a surrogate pair") from error


@dataclass(frozen=True)
class TimerRows:
    """The rows of one timer in two queues: that of the timer's key, and that of all keys."""

    prefix: bytes
    """The encoded key with its end mark, with which all rows of the key begin."""
    domain: TimeDomain
    data: bytes
    """The timer, encoded by `TimerDataCoder`."""

    @property
    def of_key(self) -> bytes:
        """The row in the queue of the timer's key."""
        return self.prefix + bytes((self.domain.value,)) + self.data

    @property
    def of_all(self) -> bytes:
        """The row in the queue of all keys: the domain, the time, the key, and the rest of the timer."""
        time, rest = self.data[:_TIME_BYTES], self.data[_TIME_BYTES:]
        return bytes((self.domain.value,)) + time + self.prefix + rest

    @staticmethod
    def read_of_all(row: bytes) -> tuple[bytes, bytes]:
        """Return the encoded key and the encoded timer of a row of the queue of all keys."""
        time_end = 1 + _TIME_BYTES
        key, end = read_escaped(row, time_end)
        return key, row[1:time_end] + row[end:]


class Queue:
    """The timers of one time domain, of one key or of all keys, from which the earliest one is taken again and again.
    To begin a scan of the table takes time for each change in the range. So the queue continues one scan from timer to
    timer, and keeps the rows that were written since the scan began in a heap.
    """

    def __init__(self, table: StateTable, family: str, prefix: bytes) -> None:
        """The rows of the queue begin with ``prefix``."""
        self._table = table
        self._family = family
        self._prefix = prefix
        self._until: bytes | None = None
        self._scan: Iterator[tuple[bytes, bytes]] = iter(())
        self._next: bytes | None = None
        self._added: list[bytes] = []

    def first_time(self) -> datetime | None:
        """Return the time of the earliest timer, None if there is none."""
        found = next(self._table.range_scan(self._prefix, after_prefix(self._prefix), self._family), None)
        return None if found is None else self._time_of(found[0])

    def first_before(self, now: datetime) -> bytes | None:
        """Return the row of the earliest timer whose time is before ``now``, None if there is none. The timer stays in
        the queue.
        """
        until = self._prefix + _TIME.encode(now)
        if until != self._until:
            self._until = until
            self._added = []
            self._scan = self._table.range_scan(self._prefix, until, self._family)
            self._next = self._step()
        while self._next is not None or self._added:
            if self._next is None or (self._added and self._added[0] < self._next):
                if self._table.key_exists(self._added[0], self._family):
                    return self._added[0]
                heapq.heappop(self._added)
            elif self._table.key_exists(self._next, self._family):
                return self._next
            else:
                self._next = self._step()
        return None

    def added(self, row: bytes) -> None:
        """Note a row that was written to the queue, since a scan that has begun does not show the row."""
        if self._until is not None and self._prefix <= row < self._until:
            heapq.heappush(self._added, row)

    def _step(self) -> bytes | None:
        found = next(self._scan, None)
        return None if found is None else found[0]

    def _time_of(self, row: bytes) -> datetime:
        return _TIME.decode(row[len(self._prefix) : len(self._prefix) + _TIME_BYTES])

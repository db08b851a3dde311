"""How timers lie in a table, and taking those that are due in order.

A timer is three rows: one under its key, namespace and ids, which finds it; and one in each of two queues, that of its
key and that of all keys, which begin with the domain and the time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from milepost.state.coders import TimestampCoder
from milepost.state.coders.escaped import read_escaped
from milepost.state.dialects.beam.tables import StateTable
from milepost.state.dialects.beam.timers import TimeDomain
from milepost.state.store.rows import after_prefix

BY_ID = "timers: by id"
OF_KEY = "timers: of one key"
OF_ALL = "timers: of all keys"
WATERMARKS = "timers: watermarks"

_TIME = TimestampCoder()
_TIME_BYTES = 8


@dataclass(frozen=True)
class TimerRows:
    """The rows of one timer."""

    prefix: bytes
    """What the rows of the key begin with: the encoded key, with its end marked."""
    domain: TimeDomain
    data: bytes
    """The timer as bytes."""

    @property
    def of_key(self) -> bytes:
        """The row in the queue of the key."""
        return self.prefix + bytes((self.domain.value,)) + self.data

    @property
    def of_all(self) -> bytes:
        """The row in the queue of all keys, which sort behind the time."""
        time, rest = self.data[:_TIME_BYTES], self.data[_TIME_BYTES:]
        return bytes((self.domain.value,)) + time + self.prefix + rest

    @staticmethod
    def read_of_all(row: bytes) -> tuple[bytes, bytes]:
        """Return the encoded key and the timer of a row in the queue of all keys."""
        time_end = 1 + _TIME_BYTES
        key, end = read_escaped(row, time_end)
        return key, row[1:time_end] + row[end:]


class Queue:
    """The timers of one domain in one queue, of which the earliest is taken again and again.

    Scanning a range costs something for each change in it, so one scan goes on from timer to timer, and what is added
    to its range meanwhile is kept beside it.
    """

    def __init__(self, table: StateTable, family: str, prefix: bytes) -> None:
        """``prefix`` is what the rows of the queue begin with."""
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
        """Return the row of the earliest timer before a time, None if there is none. It stays where it is."""
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
        """Take notice of a row that was written."""
        if self._until is not None and self._prefix <= row < self._until:
            heapq.heappush(self._added, row)

    def _step(self) -> bytes | None:
        found = next(self._scan, None)
        return None if found is None else found[0]

    def _time_of(self, row: bytes) -> datetime:
        return _TIME.decode(row[len(self._prefix) : len(self._prefix) + _TIME_BYTES])

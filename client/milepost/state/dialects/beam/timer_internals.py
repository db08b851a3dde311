"""Beam timers by key, and the watermarks and clocks by which timers fire."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any, Generic, TypeVar

from milepost.state.coders import Coder, TimestampCoder
from milepost.state.coders.framing import write_escaped
from milepost.state.dialects.beam.namespaces import TIMESTAMP_MIN_VALUE, StateNamespace
from milepost.state.dialects.beam.tables import PerKey, StateTable
from milepost.state.dialects.beam.timers import (
    BY_ID,
    OF_ALL,
    OF_KEY,
    WATERMARKS,
    Queue,
    TimeDomain,
    TimerData,
    TimerDataCoder,
    TimerRows,
    id_bytes,
)
from milepost.state.errors import InvalidUse

K = TypeVar("K")
R = TypeVar("R")

_TIME = TimestampCoder()
_INPUT = b"input"
_OUTPUT = b"output"


class Times:
    """The watermarks and the clocks of a table. The table stores the watermarks but not the clocks, which begin at
    `TIMESTAMP_MIN_VALUE` each time that the table is opened. No watermark and no clock goes back.
    """

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self.clocks = dict.fromkeys(
            (TimeDomain.PROCESSING_TIME, TimeDomain.SYNCHRONIZED_PROCESSING_TIME), TIMESTAMP_MIN_VALUE
        )
        self.input = self._load(_INPUT) or TIMESTAMP_MIN_VALUE
        self.output = self._load(_OUTPUT)

    def now(self, domain: TimeDomain) -> datetime:
        """Return the time by which the timers of a domain fire: the input watermark for event time, else the clock of
        the domain.
        """
        return self.input if domain is TimeDomain.EVENT_TIME else self.clocks[domain]

    def advance_input(self, to: datetime) -> None:
        """Set the input watermark, and store it. Raises `InvalidUse` if it would go back."""
        to = _forward(self.input, to, "the input watermark")
        if to != self.input:
            self._table.put(_INPUT, _TIME.encode(to), WATERMARKS)
            self.input = to

    def advance_output(self, to: datetime) -> None:
        """Set and store the output watermark; a time after the input watermark counts as the input watermark. Raises
        `InvalidUse` if the output watermark would go back.
        """
        to = _forward(self.output, min(_in_utc(to), self.input), "the output watermark")
        if to != self.output:
            self._table.put(_OUTPUT, _TIME.encode(to), WATERMARKS)
            self.output = to

    def advance_clock(self, domain: TimeDomain, to: datetime) -> None:
        """Set the clock of a domain of processing time, plain or synchronized. Raises `InvalidUse` if it would go
        back.
        """
        self.clocks[domain] = _forward(self.clocks[domain], to, domain.name.lower().replace("_", " "))

    def _load(self, name: bytes) -> datetime | None:
        found = self._table.get(name, WATERMARKS)
        return None if found is None else _TIME.decode(found)


class TimerQueue(ABC, Generic[R]):
    """Returns the timers of one key, or of all keys, in the order of their times, once these have passed. All queues of
    a factory share the watermarks and clocks: a time that is advanced through one queue is advanced for all.
    """

    def __init__(self, times: Times, queues: dict[TimeDomain, Queue]) -> None:
        self._times = times
        self._queues = queues

    def current_input_watermark_time(self) -> datetime:
        """Return the input watermark; `TIMESTAMP_MIN_VALUE` before it is first set (Beam's
        ``currentInputWatermarkTime``).
        """
        return self._times.input

    def current_output_watermark_time(self) -> datetime | None:
        """Return the output watermark; None before it is first set (Beam's ``currentOutputWatermarkTime``)."""
        return self._times.output

    def current_processing_time(self) -> datetime:
        """Return the time of the processing-time clock; `TIMESTAMP_MIN_VALUE` before it is first set (Beam's
        ``currentProcessingTime``).
        """
        return self._times.clocks[TimeDomain.PROCESSING_TIME]

    def current_synchronized_processing_time(self) -> datetime:
        """Return the synchronized processing time; `TIMESTAMP_MIN_VALUE` before it is first set (Beam's
        ``currentSynchronizedProcessingTime``).
        """
        return self._times.clocks[TimeDomain.SYNCHRONIZED_PROCESSING_TIME]

    def advance_input_watermark(self, to: datetime) -> None:
        """Set the input watermark, which is stored with the timers (Beam's ``advanceInputWatermark``). Each method that
        advances a time raises `InvalidUse` if the time would go back, and `CoderError` for a time without a time zone.
        """
        self._times.advance_input(to)

    def advance_output_watermark(self, to: datetime) -> None:
        """Set the output watermark; a time after the input watermark counts as the input watermark (Beam's
        ``advanceOutputWatermark``).
        """
        self._times.advance_output(to)

    def advance_processing_time(self, to: datetime) -> None:
        """Set the processing time, which is not stored (Beam's ``advanceProcessingTime``)."""
        self._times.advance_clock(TimeDomain.PROCESSING_TIME, to)

    def advance_synchronized_processing_time(self, to: datetime) -> None:
        """Set the synchronized processing time, which is not stored (Beam's ``advanceSynchronizedProcessingTime``)."""
        self._times.advance_clock(TimeDomain.SYNCHRONIZED_PROCESSING_TIME, to)

    def next_timer(self, domain: TimeDomain) -> datetime | None:
        """Return the time of the earliest timer of a domain, passed or not; None without timers (Beam's
        ``getNextTimer``).
        """
        return self._queues[domain].first_time()

    def remove_next_event_timer(self) -> R | None:
        """Remove and return the earliest timer whose time the input watermark has passed; None if there is none (Beam's
        ``removeNextEventTimer``).
        """
        return self._remove_next(TimeDomain.EVENT_TIME)

    def remove_next_processing_timer(self) -> R | None:
        """Remove and return the earliest timer whose processing time has passed; None if there is none (Beam's
        ``removeNextProcessingTimer``).
        """
        return self._remove_next(TimeDomain.PROCESSING_TIME)

    def remove_next_synchronized_processing_timer(self) -> R | None:
        """Remove and return the earliest timer whose synchronized processing time has passed; None if there is none
        (Beam's ``removeNextSynchronizedProcessingTimer``).
        """
        return self._remove_next(TimeDomain.SYNCHRONIZED_PROCESSING_TIME)

    def _remove_next(self, domain: TimeDomain) -> R | None:
        row = self._queues[domain].first_before(self._times.now(domain))
        return None if row is None else self._removed(row)

    @abstractmethod
    def _removed(self, row: bytes) -> R:
        """Remove a timer from the table, and return it; ``row`` is its row in this queue."""


class TimerInternals(TimerQueue[TimerData]):
    """The timers of one key (Beam's ``TimerInternals``). A timer is identified by a namespace, its own id and the id of
    its timer family.
    """

    def __init__(self, timers: _Timers, prefix: bytes) -> None:
        """`TimerInternalsFactory` makes these objects. All rows of the key begin with ``prefix``."""
        super().__init__(timers.times, timers.queues(OF_KEY, prefix))
        self._timers = timers
        self._prefix = prefix

    def set_timer(self, timer: TimerData) -> None:
        """Set a timer. It replaces the timer with the same namespace and ids (Beam's ``setTimer``). Raises `InvalidUse`
        if the replaced timer has another domain, and `CoderError` for a time without a time zone, or for a window that
        was encoded by another coder than the factory's ``window_coder``.
        """
        rows = TimerRows(self._prefix, timer.domain, self._timers.coder.encode(timer))
        place = self._place(timer.namespace, timer.timer_id, timer.timer_family_id)
        before = self._timers.find(self._prefix, place)
        if before is not None and before.domain is not timer.domain:
            raise InvalidUse(f"the timer {timer.timer_id!r} is set already, for {before.domain.name}")
        if before != rows:
            if before is not None:
                self._timers.remove(place, before)
            self._timers.write(place, rows)
            self._queues[timer.domain].added(rows.of_key)

    def delete_timer(self, namespace: StateNamespace, timer_id: str, timer_family_id: str = "") -> None:
        """Delete a timer, if it exists (Beam's ``deleteTimer``)."""
        place = self._place(namespace, timer_id, timer_family_id)
        before = self._timers.find(self._prefix, place)
        if before is not None:
            self._timers.remove(place, before)

    def _removed(self, row: bytes) -> TimerData:
        return self._timers.take(self._prefix, row[len(self._prefix) + 1 :])

    def _place(self, namespace: StateNamespace, timer_id: str, timer_family_id: str) -> bytes:
        return self._prefix + namespace.key + id_bytes(timer_id, timer_family_id)


class TimerInternalsFactory(TimerQueue[tuple[K, TimerData]], Generic[K]):
    """The timers of all keys in one table (Beam's ``TimerInternalsFactory``). The table stores timers and watermarks;
    the commit of a `StateStore` contains them. A table has only one factory, which owns the column families whose names
    begin with ``timers:``.
    """

    def __init__(self, table: StateTable, key_coder: Coder[K], window_coder: Coder[Any]) -> None:
        """``key_coder`` encodes the keys, and ``window_coder`` the windows of all timers. Raises `NotDeterministic` for
        a coder that may encode equal values differently, and the errors of the table.
        """
        timers = _Timers(table, TimerDataCoder(window_coder))
        self._timers = timers
        self._keys = PerKey(key_coder, lambda _, prefix: TimerInternals(timers, prefix))
        super().__init__(timers.times, timers.of_all)

    def timer_internals_for_key(self, key: K) -> TimerInternals:
        """Return the timers of a key (Beam's ``timerInternalsForKey``). It is the same object for each call, as long as
        the caller holds a reference to it. Raises `CoderError` for a key that the coder refuses.
        """
        return self._keys.get(key)

    def _removed(self, row: bytes) -> tuple[K, TimerData]:
        key, data = TimerRows.read_of_all(row)
        return self._keys.coder.decode(key), self._timers.take(write_escaped(key), data)


class _Timers:
    """Reads and writes the three rows that each timer has in a table."""

    def __init__(self, table: StateTable, coder: TimerDataCoder) -> None:
        for family in (BY_ID, OF_KEY, OF_ALL, WATERMARKS):
            table.create_column_family_if_absent(family)
        self._table = table
        self.coder = coder
        self.times = Times(table)
        self.of_all = self.queues(OF_ALL, b"")

    def queues(self, family: str, prefix: bytes) -> dict[TimeDomain, Queue]:
        """Return a queue for each time domain; the rows of a queue begin with ``prefix`` and the number of the
        domain.
        """
        return {domain: Queue(self._table, family, prefix + bytes((domain.value,))) for domain in TimeDomain}

    def find(self, prefix: bytes, place: bytes) -> TimerRows | None:
        """Return the rows of the timer with the key ``place`` in the column family `BY_ID`, None if there is none.
        ``prefix`` is the beginning of all rows of the timer's key.
        """
        data = self._table.get(place, BY_ID)
        return None if data is None else TimerRows(prefix, self.coder.decode(data).domain, data)

    def write(self, place: bytes, rows: TimerRows) -> None:
        """Write the rows of a new timer; ``place`` is the timer's key in the column family `BY_ID`."""
        self._table.put(place, rows.data, BY_ID)
        self._table.put(rows.of_key, b"", OF_KEY)
        self._table.put(rows.of_all, b"", OF_ALL)
        self.of_all[rows.domain].added(rows.of_all)

    def remove(self, place: bytes, rows: TimerRows) -> None:
        """Remove the rows of an existing timer; ``place`` is the timer's key in the column family `BY_ID`."""
        self._table.remove(place, BY_ID)
        self._table.remove(rows.of_key, OF_KEY)
        self._table.remove(rows.of_all, OF_ALL)

    def take(self, prefix: bytes, data: bytes) -> TimerData:
        """Remove an existing timer, and return it. ``data`` is the timer as `TimerDataCoder` encodes it, and ``prefix``
        the beginning of all rows of its key.
        """
        timer = self.coder.decode(data)
        place = prefix + timer.namespace.key + id_bytes(timer.timer_id, timer.timer_family_id)
        self.remove(place, TimerRows(prefix, timer.domain, data))
        return timer


def _in_utc(time: datetime) -> datetime:
    return _TIME.decode(_TIME.encode(time))


def _forward(before: datetime | None, to: datetime, what: str) -> datetime:
    to = _in_utc(to)
    if before is not None and to < before:
        raise InvalidUse(f"{what} cannot go back from {before} to {to}")
    return to

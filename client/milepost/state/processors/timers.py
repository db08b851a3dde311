"""The time of a batch, and the timers of its keys. A timer has two rows in the state store: by key, for the processor,
and by time, to find the timers that are due.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from milepost.state.cells.lifetime import TIME_BYTES, decode_time, encode_time
from milepost.state.cells.states import CurrentKey
from milepost.state.errors import InvalidUse
from milepost.state.key_groups import GROUP_BYTES, KeyGroups
from milepost.state.store.contract.stores import StateStore

BY_KEY = "timers:key"
BY_TIME = "timers:time"
MOST_MILLISECONDS = (1 << 63) - 1


class TimeMode(Enum):
    """The time by which timers fire, as in Spark's ``timeMode``. State always expires by processing time."""

    NONE = "none"
    PROCESSING = "processingtime"
    EVENT = "eventtime"

    @classmethod
    def of(cls, text: str) -> TimeMode:
        """Return the mode for Spark's text, in any case. Raises `InvalidUse` for another text."""
        for mode in cls:
            if mode.value == text.lower():
                return mode
        raise InvalidUse(f"the time mode is None, ProcessingTime or EventTime, not {text!r}")


@dataclass(frozen=True)
class BatchTimes:
    """The times of a batch in milliseconds since 1970: when it began, and its watermark. All tasks and attempts of a
    batch have the same times, so that they produce the same state.
    """

    processing: int = -1
    watermark: int = -1

    def now(self, mode: TimeMode) -> int | None:
        """Return the time by which timers fire: the time of the batch's beginning or its watermark; None if the mode
        has no timers.
        """
        return {TimeMode.NONE: None, TimeMode.PROCESSING: self.processing, TimeMode.EVENT: self.watermark}[mode]


class Current(CurrentKey):
    """The state store of a task, the times of its batch, and the key for which the processor is called."""

    def __init__(self, store: StateStore, groups: KeyGroups, mode: TimeMode, times: BatchTimes) -> None:
        super().__init__(groups, "state and timers belong to a key, so they can be used only while a key is handled")
        self.store = store
        self.mode = mode
        self.times = times


class Timers:
    """The timers of all keys in a state store."""

    def __init__(self, current: Current) -> None:
        self._current = current

    def register(self, expiry: Any) -> None:
        """Register a timer of the current key at ``expiry``, in milliseconds since 1970, unless it exists. Raises
        `InvalidUse` for a time that no timer can have, and if the time mode has no timers.
        """
        for key, family in self._rows(expiry):
            self._current.store.put(key, b"", family)

    def delete(self, expiry: Any) -> None:
        """Remove the timer of the current key at ``expiry``, if it exists. Raises `InvalidUse` as `register` does."""
        for key, family in self._rows(expiry):
            self._current.store.remove(key, family)

    def list(self) -> Iterator[int]:
        """Iterate over the times of the current key's timers, earliest first."""
        self._check_mode()
        prefix = self._current.entries()
        found = list(self._current.store.prefix_scan(prefix, BY_KEY))
        return (decode_time(key[len(prefix) :]) for key, _ in found)

    def due(self, groups: Iterable[int], now: int) -> Iterator[tuple[bytes, int]]:
        """Iterate over the timers before ``now`` of all keys in these key groups, earliest first: each is a key and a
        time. All of them are found before the first one is returned. So a timer that is registered during the iteration
        fires in the next batch.
        """
        end = encode_time(now)
        each = []
        for group in groups:
            prefix = group.to_bytes(GROUP_BYTES, "big")
            found = [key for key, _ in self._current.store.range_scan(prefix, prefix + end, BY_TIME)]
            if found:
                each.append([(decode_time(key[GROUP_BYTES:]), key[GROUP_BYTES + TIME_BYTES :]) for key in found])
        return ((key, time) for time, key in heapq.merge(*each))

    def _rows(self, expiry: Any) -> tuple[tuple[bytes, str], ...]:
        """Return the two rows of a timer of the current key: for each, its key and its column family."""
        time, current = encode_time(self._checked(expiry)), self._current
        by_time = current.group + time + current.row()[GROUP_BYTES:]
        return (current.entries() + time, BY_KEY), (by_time, BY_TIME)

    def _checked(self, expiry: Any) -> int:
        self._check_mode()
        try:
            milliseconds = operator.index(expiry)
        except TypeError as error:
            raise InvalidUse(f"a timer is at a whole number of milliseconds, not {expiry!r}") from error
        if not 0 < milliseconds <= MOST_MILLISECONDS:
            raise InvalidUse(f"a timer cannot be at {milliseconds} milliseconds since 1970")
        return milliseconds

    def _check_mode(self) -> None:
        if self._current.mode is TimeMode.NONE:
            raise InvalidUse("there are no timers with the time mode None: choose ProcessingTime or EventTime")

"""Timers of a key, stored twice: by key for the processor, and by time to find those that are due."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Iterator
from typing import Any

from milepost.state.errors import InvalidUse
from milepost.state.key_groups import GROUP_BYTES
from milepost.state.processors.current import MILLISECOND_BYTES, Current, TimeMode, decode_time, encode_time

BY_KEY = "timers:key"
BY_TIME = "timers:time"
MOST_MILLISECONDS = (1 << 63) - 1


class Timers:
    """The timers of a store."""

    def __init__(self, current: Current) -> None:
        self._current = current

    def register(self, expiry: Any) -> None:
        """Register a timer of the current key at this time, in milliseconds since 1970, if there is none."""
        milliseconds = self._checked(expiry)
        time = encode_time(milliseconds)
        self._current.store.put(self._current.entries + time, b"", BY_KEY)
        self._current.store.put(self._current.timed(milliseconds, self._current.whole[GROUP_BYTES:]), b"", BY_TIME)

    def delete(self, expiry: Any) -> None:
        """Remove the timer of the current key at this time."""
        milliseconds = self._checked(expiry)
        self._current.store.remove(self._current.entries + encode_time(milliseconds), BY_KEY)
        self._current.store.remove(self._current.timed(milliseconds, self._current.whole[GROUP_BYTES:]), BY_TIME)

    def list(self) -> Iterator[int]:
        """Iterate over the present timers of the current key, earliest first."""
        self._check_mode()
        prefix = self._current.entries
        found = list(self._current.store.prefix_scan(prefix, BY_KEY))
        return (decode_time(key[len(prefix) :]) for key, _ in found)

    def due(self, groups: Iterable[int], now: int) -> Iterator[tuple[bytes, int]]:
        """Iterate over the keys in these groups with timers before ``now``, and their timers, earliest first.

        The first step of the iteration finds all of them: a timer that is registered later waits for the next batch.
        """
        end = encode_time(now)
        each = []
        for group in groups:
            prefix = group.to_bytes(GROUP_BYTES, "big")
            found = [key for key, _ in self._current.store.range_scan(prefix, prefix + end, BY_TIME)]
            if found:
                each.append([(decode_time(key[GROUP_BYTES:]), key[GROUP_BYTES + MILLISECOND_BYTES :]) for key in found])
        return ((key, time) for time, key in heapq.merge(*each))

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

"""The time to live of stored values: the time before each value, and an index of the values by their expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from milepost.state.coders import CoderError, FixedIntCoder
from milepost.state.key_groups import GROUP_BYTES
from milepost.state.store.contract.stores import StateStore

Clock = Callable[[], int]
"""A function that returns the time in milliseconds since 1970 (Flink's ``TtlTimeProvider``)."""

TIME_BYTES = 8
_TIME = FixedIntCoder(TIME_BYTES)

encode_time = _TIME.encode
"""Turns a time in milliseconds since 1970 into eight bytes, which sort as times do."""


def decode_time(data: bytes) -> int:
    """Return the time with which the bytes begin. Raises `CoderError` for fewer than eight bytes."""
    return _TIME.decode(data[:TIME_BYTES])


class StoreOwner(Protocol):
    """An object that has the store of a task. After a commit its ``store`` is the next version."""

    @property
    def store(self) -> StateStore:
        """The version that is open for changes."""


@dataclass(frozen=True)
class Lifetime:
    """The time to live of the values of a family, in milliseconds, and the effects of reading the values.

    A stored value begins with a time in eight bytes: the start of its lifetime (Flink), or, if ``stamps_expiry``, the
    end (Spark). Reading an expired value removes it if ``clears_on_read``; the reader still gets the value if
    ``shows_expired``. ``renews_on_read`` says that reading a value restarts its lifetime.
    """

    ttl: int
    clock: Clock
    stamps_expiry: bool = False
    clears_on_read: bool = False
    shows_expired: bool = False
    renews_on_read: bool = False

    def stamped(self, value: bytes) -> bytes:
        """Return a value whose lifetime begins now, with its time."""
        return encode_time(self.clock() + (self.ttl if self.stamps_expiry else 0)) + value

    def expired(self, kept: bytes) -> bool:
        """Return whether a stamped value has expired. Raises `CoderError` for bytes without a time."""
        return decode_time(kept) + (0 if self.stamps_expiry else self.ttl) <= self.clock()

    @staticmethod
    def value(kept: bytes) -> bytes:
        """Return the value that `stamped` was given. Raises `CoderError`."""
        if len(kept) < TIME_BYTES:
            raise CoderError("a value with a time to live begins with its time in eight bytes")
        return kept[TIME_BYTES:]


class ExpiryIndex:
    """Lists the keys of a family by the time at which their values expire, so that clean-up reads no other values.

    A row is the key group, the time of expiry, and the rest of the key.
    """

    def __init__(self, owner: StoreOwner, family: str) -> None:
        self._owner = owner
        self._family = family

    def add(self, key: bytes, kept: bytes) -> None:
        """Note when the stamped value of a key expires."""
        self._owner.store.put(self._row(key, kept), b"", self._family)

    def discard(self, key: bytes, kept: bytes | None) -> None:
        """Remove the note on a stamped value; do nothing for None."""
        if kept is not None:
            self._owner.store.remove(self._row(key, kept), self._family)

    def take_due(self, groups: Iterable[int], now: int) -> Iterator[bytes]:
        """Remove the notes up to this time from the index of these key groups, and iterate over their keys."""
        for group in groups:
            prefix = group.to_bytes(GROUP_BYTES, "big")
            start, end = prefix + encode_time(0), prefix + encode_time(now + 1)
            for row, _ in list(self._owner.store.range_scan(start, end, self._family)):
                self._owner.store.remove(row, self._family)
                yield prefix + row[GROUP_BYTES + TIME_BYTES :]

    @staticmethod
    def _row(key: bytes, kept: bytes) -> bytes:
        return key[:GROUP_BYTES] + kept[:TIME_BYTES] + key[GROUP_BYTES:]

"""The time to live of values: the time stored before each value, and an index of keys by the expiry of their values."""

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
"""Turns milliseconds since 1970 into eight bytes that sort in order of time."""


def decode_time(data: bytes) -> int:
    """Return the milliseconds since 1970 in the first eight bytes. Raises `CoderError` for fewer than eight bytes."""
    return _TIME.decode(data[:TIME_BYTES])


class StoreOwner(Protocol):
    """An object that holds the open state store of a task. Each commit ends the store, and the owner then opens the new
    version.
    """

    @property
    def store(self) -> StateStore:
        """The state store that is open for changes now; after a commit it is another object."""


@dataclass(frozen=True)
class Lifetime:
    """The time to live of the values of a column family, in milliseconds, and the effects of reading a value.

    A stored value begins with a time in eight bytes: the start of its lifetime, as in Flink, or, with
    ``stamps_expiry``, the end of its lifetime, as in `milepost.state.processors`. With ``clears_on_read``, reading an
    expired value removes the value; with ``shows_expired`` the reader still gets it. With ``renews_on_read``, reading a
    value restarts its lifetime.
    """

    ttl: int
    clock: Clock
    stamps_expiry: bool = False
    clears_on_read: bool = False
    shows_expired: bool = False
    renews_on_read: bool = False

    def stamped(self, value: bytes) -> bytes:
        """Return the bytes to store for a value whose lifetime begins now: a time, and then the value."""
        return encode_time(self.clock() + (self.ttl if self.stamps_expiry else 0)) + value

    def expired(self, kept: bytes) -> bool:
        """Return whether the stored value ``kept``, which begins with its time, has expired. Raises `CoderError` for
        fewer than eight bytes.
        """
        return decode_time(kept) + (0 if self.stamps_expiry else self.ttl) <= self.clock()

    @staticmethod
    def value(kept: bytes) -> bytes:
        """Return the stored value ``kept`` without the time at its beginning. Raises `CoderError` for fewer than eight
        bytes.
        """
        if len(kept) < TIME_BYTES:
            raise CoderError("a value with a time to live begins with its time in eight bytes")
        return kept[TIME_BYTES:]


class ExpiryIndex:
    """Lists the keys of a column family by the expiry of their values, so that clean-up reads only expired values. Each
    listed key has an index row in a column family of its own; the row's key is the key group, the time of expiry, and
    the listed key without its group.
    """

    def __init__(self, owner: StoreOwner, family: str) -> None:
        self._owner = owner
        self._family = family

    def add(self, key: bytes, kept: bytes) -> None:
        """List a key by the expiry of its stored value ``kept``, which begins with the time of expiry."""
        self._owner.store.put(self._row(key, kept), b"", self._family)

    def discard(self, key: bytes, kept: bytes | None) -> None:
        """Remove the index row that `add` wrote for a key and its stored value ``kept``. None means that the key has no
        value, and so no index row; then do nothing.
        """
        if kept is not None:
            self._owner.store.remove(self._row(key, kept), self._family)

    def take_due(self, groups: Iterable[int], now: int) -> Iterator[bytes]:
        """Iterate over the keys in these key groups that are listed at the time ``now`` or earlier, and remove their
        index rows.
        """
        for group in groups:
            prefix = group.to_bytes(GROUP_BYTES, "big")
            start, end = prefix + encode_time(0), prefix + encode_time(now + 1)
            for row, _ in list(self._owner.store.range_scan(start, end, self._family)):
                self._owner.store.remove(row, self._family)
                yield prefix + row[GROUP_BYTES + TIME_BYTES :]

    @staticmethod
    def _row(key: bytes, kept: bytes) -> bytes:
        return key[:GROUP_BYTES] + kept[:TIME_BYTES] + key[GROUP_BYTES:]

"""The state variables that a processor works with, with the interface of PySpark's.

A value that expires has its time of expiry in eight bytes before it. A separate column family lists the values by this
time, so that clean-up finds expired ones without reading all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from milepost.state.errors import InvalidUse
from milepost.state.key_groups import GROUP_BYTES
from milepost.state.processors.current import MILLISECOND_BYTES, Current, decode_time, encode_time
from milepost.state.processors.variables import RowCoder, StateVariable

Expired = Callable[[bytes], bool]


class _State:
    """The common parts of the three kinds of state: encoding, and the times at which values expire."""

    def __init__(self, current: Current, variable: StateVariable, coder: RowCoder) -> None:
        self._current = current
        self._store = current.store
        self._family = variable.family
        self._expiry_family = variable.expiry_family
        self._ttl = variable.ttl
        self._now = current.times.processing
        self._coder = coder

    def _encode(self, value: Any) -> bytes:
        if value is None:
            raise InvalidUse("a state has a value or none: clear it to have none")
        data = self._coder.encode(value)
        return data if self._ttl is None else encode_time(self._now + self._ttl) + data

    def _decode(self, data: bytes) -> tuple[Any, ...]:
        return self._coder.decode(data if self._ttl is None else data[MILLISECOND_BYTES:])

    def _lives(self, data: bytes | None) -> bool:
        return data is not None and (self._ttl is None or decode_time(data) > self._now)

    def _note_expiry(self, key: bytes, before: bytes | None) -> None:
        """Note that the value of this key, which was ``before``, expires one ``ttl`` from now."""
        if self._ttl is not None:
            self._forget_expiry(key, before)
            self._store.put(_expiry_key(key, encode_time(self._now + self._ttl)), b"", self._expiry_family)

    def _forget_expiry(self, key: bytes, before: bytes | None) -> None:
        if self._ttl is not None and before is not None:
            self._store.remove(_expiry_key(key, before[:MILLISECOND_BYTES]), self._expiry_family)

    def clean(self, groups: Iterable[int]) -> None:
        """Remove the expired values of all keys in these groups."""
        if self._ttl is None:
            return
        end = encode_time(self._now + 1)
        for group in groups:
            prefix = group.to_bytes(GROUP_BYTES, "big")
            due = list(self._store.range_scan(prefix + encode_time(0), prefix + end, self._expiry_family))
            for expiry, _ in due:
                self._store.remove(expiry, self._expiry_family)
                self._remove_expired(prefix + expiry[GROUP_BYTES + MILLISECOND_BYTES :])

    def _remove_expired(self, key: bytes) -> None:
        if not self._lives(self._store.get(key, self._family)):
            self._store.remove(key, self._family)


class ValueState(_State):
    """One row for each key (``pyspark.sql.streaming.stateful_processor.ValueState``)."""

    def exists(self) -> bool:
        """Return whether the key has a value."""
        return self._lives(self._store.get(self._current.whole, self._family))

    def get(self) -> tuple[Any, ...] | None:
        """Return the value, None if there is none."""
        data = self._store.get(self._current.whole, self._family)
        return self._decode(data) if data is not None and self._lives(data) else None

    def update(self, newValue: tuple[Any, ...]) -> None:
        """Set the value."""
        key, data = self._current.whole, self._encode(newValue)
        if self._ttl is not None:
            self._note_expiry(key, self._store.get(key, self._family))
        self._store.put(key, data, self._family)

    def clear(self) -> None:
        """Remove the value."""
        key = self._current.whole
        if self._ttl is not None:
            self._forget_expiry(key, self._store.get(key, self._family))
        self._store.remove(key, self._family)


class ListState(_State):
    """A list of rows for each key (``pyspark.sql.streaming.stateful_processor.ListState``). Each row expires by itself.

    Appending neither reads nor writes the rows that are there.
    """

    def exists(self) -> bool:
        """Return whether the key has a row."""
        if self._ttl is None:
            return self._store.key_exists(self._current.whole, self._family)
        return any(self._lives(data) for data in self._store.values_iterator(self._current.whole, self._family))

    def get(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the present rows, in the order in which they were added."""
        found = list(self._store.values_iterator(self._current.whole, self._family))
        return (self._decode(data) for data in found if self._lives(data))

    def put(self, newState: list[tuple[Any, ...]]) -> None:
        """Replace all rows by these, at least one."""
        self._add(newState, self._store.put_list)

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        """Add a row."""
        self._add([newState], self._store.merge_list)

    def appendList(self, newState: list[tuple[Any, ...]]) -> None:
        """Add rows, at least one."""
        self._add(newState, self._store.merge_list)

    def clear(self) -> None:
        """Remove all rows. Their noted times of expiry stay, and do no harm."""
        self._store.remove(self._current.whole, self._family)

    def _add(self, rows: Any, add: Callable[[bytes, list[bytes], str], None]) -> None:
        encoded = [self._encode(row) for row in rows or ()]
        if not encoded:
            raise InvalidUse("a list state takes one row at least: clear it to have none")
        key = self._current.whole
        add(key, encoded, self._family)
        self._note_expiry(key, None)

    def _remove_expired(self, key: bytes) -> None:
        values = list(self._store.values_iterator(key, self._family))
        living = [data for data in values if self._lives(data)]
        if len(living) == len(values):
            return
        if living:
            self._store.put_list(key, living, self._family)
        else:
            self._store.remove(key, self._family)


class MapState(_State):
    """A map from rows to rows for each key (``pyspark.sql.streaming.stateful_processor.MapState``); each entry expires
    by itself.
    """

    def __init__(self, current: Current, variable: StateVariable, coder: RowCoder, keys: RowCoder) -> None:
        super().__init__(current, variable, coder)
        self._keys = keys

    def exists(self) -> bool:
        """Return whether the map has an entry."""
        return any(True for _ in self._living())

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the value of an entry, None if there is none."""
        data = self._store.get(self._entry(key), self._family)
        return self._decode(data) if data is not None and self._lives(data) else None

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        """Return whether the map has an entry with this key."""
        return self._lives(self._store.get(self._entry(key), self._family))

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        """Set an entry."""
        entry, data = self._entry(key), self._encode(value)
        if self._ttl is not None:
            self._note_expiry(entry, self._store.get(entry, self._family))
        self._store.put(entry, data, self._family)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Iterate over the present entries, sorted by the bytes of their keys."""
        return ((self._keys.decode(key), self._decode(data)) for key, data in self._entries())

    def keys(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the keys of the entries."""
        return (self._keys.decode(key) for key, _ in self._entries())

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the values of the entries."""
        return (self._decode(data) for _, data in self._entries())

    def removeKey(self, key: tuple[Any, ...]) -> None:
        """Remove an entry, if it exists."""
        self._remove(self._entry(key))

    def clear(self) -> None:
        """Remove all entries."""
        for entry, _ in list(self._store.prefix_scan(self._current.entries, self._family)):
            self._remove(entry)

    def _remove(self, entry: bytes) -> None:
        if self._ttl is not None:
            self._forget_expiry(entry, self._store.get(entry, self._family))
        self._store.remove(entry, self._family)

    def _entry(self, key: tuple[Any, ...]) -> bytes:
        if key is None:
            raise InvalidUse("the key of an entry cannot be None")
        return self._current.entries + self._keys.encode(key)

    def _living(self) -> Iterator[tuple[bytes, bytes]]:
        prefix = self._current.entries
        for entry, data in self._store.prefix_scan(prefix, self._family):
            if self._lives(data):
                yield entry[len(prefix) :], data

    def _entries(self) -> list[tuple[bytes, bytes]]:
        return list(self._living())


def _expiry_key(key: bytes, time: bytes) -> bytes:
    """Return the key that sorts by time within its group."""
    return key[:GROUP_BYTES] + time + key[GROUP_BYTES:]

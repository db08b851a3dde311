"""The values of one family of keyed state as bytes, which may expire: one for each key, or a list for each key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice

from milepost.state.dialects.flink.task_store import TaskStore
from milepost.state.dialects.flink.ttl import Clock, Lifetime, StateTtlConfig
from milepost.state.store import StateStore
from milepost.state.store.rows import after_prefix


class Values(ABC):
    """The common part of both kinds of families: the clean-up of expired values that are never read.

    Incremental clean-up cycles through all keys, as Flink's does. It keeps an iterator, which shows the store as it was
    when the iterator was made; so a value that looks expired there is checked again before its removal.
    """

    def __init__(self, tasks: TaskStore, family: str, ttl: StateTtlConfig | None, clock: Clock) -> None:
        self.family = family
        self._tasks = tasks
        self._lifetime = Lifetime(ttl, clock) if ttl is not None else None
        self._walked: StateStore | None = None
        self._walk: Iterator[bytes] = iter(())
        self._last: bytes | None = None

    @property
    def ttl(self) -> StateTtlConfig | None:
        """The settings of the values' lifetime, None if they never expire."""
        return self._lifetime.config if self._lifetime else None

    @property
    def _store(self) -> StateStore:
        return self._tasks.store

    @abstractmethod
    def all_keys(self, start: bytes | None = None, end: bytes | None = None) -> Iterator[bytes]:
        """Iterate over the existing keys, expired or not, each once."""

    @abstractmethod
    def expire(self, key: bytes) -> None:
        """Remove the expired values of a key."""

    def clean_some(self) -> None:
        """Check the next few keys, if incremental clean-up is on."""
        if self._lifetime is None or not self._lifetime.config.incremental:
            return
        if self._walked is not self._store:  # the iterator became invalid with the commit
            self._walked = self._store
            self._walk = self.all_keys(self._last + b"\0" if self._last is not None else None)
        looked = list(islice(self._walk, self._lifetime.config.incremental))
        for key in looked:
            self.expire(key)
        if looked:
            self._last = looked[-1]
        else:
            self._walked, self._last = None, None  # the cycle is complete: begin again with the next access

    def clean_all(self) -> None:
        """Check all keys for expired values."""
        for key in self.all_keys():
            self.expire(key)


class Cells(Values):
    """One value for each key."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if it has none."""
        self.clean_some()
        kept = self._store.get(key, self.family)
        return kept if kept is None else self._seen(key, kept)

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key, which starts the value's lifetime."""
        self.clean_some()
        self._store.put(key, self._lifetime.stamped(value) if self._lifetime else value, self.family)

    def remove(self, key: bytes) -> None:
        """Remove a key, if it exists."""
        self._store.remove(key, self.family)

    def remove_prefix(self, prefix: bytes) -> None:
        """Remove the keys that begin with a prefix."""
        self._store.delete_range(prefix, after_prefix(prefix), self.family)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that begin with a prefix, and their values, as they were at the time of the call."""
        self.clean_some()
        pairs = self._store.prefix_scan(prefix, self.family)
        seen = ((key, self._seen(key, kept)) for key, kept in pairs)
        return ((key, value) for key, value in seen if value is not None)

    def all_keys(self, start: bytes | None = None, end: bytes | None = None) -> Iterator[bytes]:
        return (key for key, _ in self._store.range_scan(start, end, self.family))

    def expire(self, key: bytes) -> None:
        kept = self._store.get(key, self.family)
        if kept is not None and self._lifetime is not None and self._lifetime.expired(kept):
            self.remove(key)

    def _seen(self, key: bytes, kept: bytes) -> bytes | None:
        """Return the value that a reader gets for a stored value, and apply the effects of reading."""
        if self._lifetime is None:
            return kept
        value = self._lifetime.value(kept)
        if self._lifetime.expired(kept):
            self.remove(key)
            return value if self._lifetime.shows_expired else None
        if self._lifetime.renews_on_read:
            self._store.put(key, self._lifetime.stamped(value), self.family)
        return value


class Lists(Values):
    """A list of values for each key, which grows without being read."""

    def get(self, key: bytes) -> list[bytes]:
        """Return the values of a key."""
        self.clean_some()
        kept = list(self._store.values_iterator(key, self.family))
        if self._lifetime is None:
            return kept
        alive = [one for one in kept if not self._lifetime.expired(one)]
        values = [self._lifetime.value(one) for one in (kept if self._lifetime.shows_expired else alive)]
        if self._lifetime.renews_on_read:
            alive = [self._lifetime.stamped(self._lifetime.value(one)) for one in alive]
        if alive != kept:
            self._set(key, alive)
        return values

    def add(self, key: bytes, values: Sequence[bytes]) -> None:
        """Append values to the existing ones."""
        self.clean_some()
        self._store.merge_list(key, self._stamped(values), self.family)

    def set(self, key: bytes, values: Sequence[bytes]) -> None:
        """Replace all values of a key by these."""
        self.clean_some()
        self._set(key, self._stamped(values))

    def all_keys(self, start: bytes | None = None, end: bytes | None = None) -> Iterator[bytes]:
        last = None
        for key, _ in self._store.range_scan_with_multi_values(start, end, self.family):
            if key != last:
                yield key
                last = key

    def expire(self, key: bytes) -> None:
        if self._lifetime is not None:
            kept = list(self._store.values_iterator(key, self.family))
            alive = [one for one in kept if not self._lifetime.expired(one)]
            if alive != kept:
                self._set(key, alive)

    def _stamped(self, values: Sequence[bytes]) -> Sequence[bytes]:
        return [self._lifetime.stamped(value) for value in values] if self._lifetime else values

    def _set(self, key: bytes, kept: Sequence[bytes]) -> None:
        if kept:
            self._store.put_list(key, kept, self.family)
        else:
            self._store.remove(key, self.family)

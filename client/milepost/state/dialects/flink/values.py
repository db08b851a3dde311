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
    """What both kinds of families share: the clean-up of expired values that nobody asks for.

    Incremental clean-up goes around over all keys, as Flink's does. It keeps an iterator, which shows the store as it
    was when it was made; so what looks expired there is looked at again before it goes.
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
        """How long values live, None if for ever."""
        return self._lifetime.config if self._lifetime else None

    @property
    def _store(self) -> StateStore:
        return self._tasks.store

    @abstractmethod
    def all_keys(self, start: bytes | None = None, end: bytes | None = None) -> Iterator[bytes]:
        """Iterate the keys that are there, expired or not, each once."""

    @abstractmethod
    def expire(self, key: bytes) -> None:
        """Remove what has expired of a key."""

    def clean_some(self) -> None:
        """Look at the next few keys, if there is incremental clean-up."""
        if self._lifetime is None or not self._lifetime.config.incremental:
            return
        if self._walked is not self._store:  # what was asked for ended with the commit
            self._walked = self._store
            self._walk = self.all_keys(self._last + b"\0" if self._last is not None else None)
        looked = list(islice(self._walk, self._lifetime.config.incremental))
        for key in looked:
            self.expire(key)
        if looked:
            self._last = looked[-1]
        else:
            self._walked, self._last = None, None  # around: begin again with the next access

    def clean_all(self) -> None:
        """Look at all keys."""
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
        """Set the value of a key, whose life begins with this."""
        self.clean_some()
        self._store.put(key, self._lifetime.stamped(value) if self._lifetime else value, self.family)

    def remove(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        self._store.remove(key, self.family)

    def remove_prefix(self, prefix: bytes) -> None:
        """Remove the keys that begin with a prefix."""
        self._store.delete_range(prefix, after_prefix(prefix), self.family)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the keys that begin with a prefix, and their values, as they were when this was called."""
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
        """Return what a reader sees of a kept value, and do to it what reading does."""
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
    """A list of values for each key, to which values are added without reading it."""

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
        """Add values behind those that are there."""
        self.clean_some()
        self._store.merge_list(key, self._stamped(values), self.family)

    def set(self, key: bytes, values: Sequence[bytes]) -> None:
        """Let a key have these values, and no others."""
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

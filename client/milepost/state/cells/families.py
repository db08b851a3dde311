"""Column families of a state store whose values are bytes and may expire: `ValueFamily` has one value for each key, and
`ListFamily` a list of values for each key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from milepost.state.cells.lifetime import ExpiryIndex, Lifetime, StoreOwner
from milepost.state.store.contract.stores import StateStore
from milepost.state.store.rows import after_prefix


class CellFamily(ABC):
    """The common part of `ValueFamily` and `ListFamily`, two kinds of column family: it removes expired values that no
    task reads any more.

    Incremental clean-up checks all keys in turn, a few at each access, as Flink does. A column family with an
    `ExpiryIndex` finds expired values by the index instead.
    """

    def __init__(
        self,
        owner: StoreOwner,
        family: str,
        lifetime: Lifetime | None = None,
        index: ExpiryIndex | None = None,
        *,
        checks: int = 0,
    ) -> None:
        """``owner`` has the state store, and ``family`` is the name of the column family there. ``lifetime`` is None
        for values that never expire. ``index`` lists the keys by the expiry of their values; None without an index.
        Each access to the family also checks ``checks`` other keys for expired values.
        """
        self.family = family
        self._owner = owner
        self._lifetime = lifetime
        self._index = index
        self._checks = checks if lifetime is not None else 0
        self._walked: StateStore | None = None
        self._walk: Iterator[bytes] = iter(())
        self._last: bytes | None = None

    @property
    def _store(self) -> StateStore:
        return self._owner.store

    @abstractmethod
    def all_keys(self, start: bytes | None = None, end: bytes | None = None) -> Iterator[bytes]:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, each once, including keys whose
        values have expired. None leaves an end open.
        """

    @abstractmethod
    def expire(self, key: bytes) -> None:
        """Remove the values of a key that have expired, if there are any."""

    def clean_some(self) -> None:
        """Check the next few keys, and remove their expired values (incremental clean-up). Do nothing if this object
        was made with ``checks=0``.
        """
        if not self._checks:
            return
        if self._walked is not self._store:  # a commit has replaced the store, and ended the walk
            self._walked = self._store
            self._walk = self.all_keys(self._last + b"\0" if self._last is not None else None)
        looked = list(islice(self._walk, self._checks))
        for key in looked:
            self.expire(key)
        if looked:
            self._last = looked[-1]
        else:
            self._walked, self._last = None, None  # all keys were checked for expiry: begin with the first again

    def clean_all(self) -> None:
        """Remove the expired values of all keys."""
        for key in self.all_keys():
            self.expire(key)

    def clean_due(self, groups: Iterable[int]) -> None:
        """Remove the expired values of the keys in these key groups; the `ExpiryIndex` finds them. Do nothing without
        an index.
        """
        if self._index is not None and self._lifetime is not None:
            for key in self._index.take_due(groups, self._lifetime.clock()):
                self.expire(key)

    def _stamped(self, value: bytes) -> bytes:
        return value if self._lifetime is None else self._lifetime.stamped(value)


class ValueFamily(CellFamily):
    """A column family with one value, which may expire, for each key."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if it has none or the value has expired."""
        self.clean_some()
        kept = self._store.get(key, self.family)
        return kept if kept is None else self._seen(key, kept)

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key. The lifetime of the value begins now."""
        self.clean_some()
        kept = self._stamped(value)
        if self._index is not None:
            self._index.discard(key, self._store.get(key, self.family))
            self._index.add(key, kept)
        self._store.put(key, kept, self.family)

    def remove(self, key: bytes) -> None:
        """Remove a key, if it exists."""
        if self._index is not None:
            self._index.discard(key, self._store.get(key, self.family))
        self._store.remove(key, self.family)

    def remove_prefix(self, prefix: bytes) -> None:
        """Remove the keys that begin with a prefix."""
        if self._index is not None:
            for key, kept in list(self._store.prefix_scan(prefix, self.family)):
                self._index.discard(key, kept)
        self._store.delete_range(prefix, after_prefix(prefix), self.family)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that begin with a prefix and their unexpired values, as of the time of the call."""
        self.clean_some()
        pairs = self._store.prefix_scan(prefix, self.family)
        seen = ((key, self._seen(key, kept)) for key, kept in pairs)
        return ((key, value) for key, value in seen if value is not None)

    def all_keys(self, start: bytes | None = None, end: bytes | None = None) -> Iterator[bytes]:
        return (key for key, _ in self._store.range_scan(start, end, self.family))

    def expire(self, key: bytes) -> None:
        kept = self._store.get(key, self.family)
        if kept is not None and self._lifetime is not None and self._lifetime.expired(kept):
            self._store.remove(key, self.family)

    def _seen(self, key: bytes, kept: bytes) -> bytes | None:
        """Return what a reader of ``key`` gets for the stored value ``kept``: the value without its time, or None if
        the value has expired and is hidden. As the `Lifetime` says, the read may also remove the value or restart its
        lifetime.
        """
        if self._lifetime is None:
            return kept
        value = self._lifetime.value(kept)
        if self._lifetime.expired(kept):
            if self._lifetime.clears_on_read:
                self.remove(key)
            return value if self._lifetime.shows_expired else None
        if self._lifetime.renews_on_read:
            self._store.put(key, self._lifetime.stamped(value), self.family)
        return value


class ListFamily(CellFamily):
    """A column family with a list of values for each key. Appending does not read the list. Each value expires by
    itself.
    """

    def exists(self, key: bytes) -> bool:
        """Return whether a key has a value that has not expired."""
        if self._lifetime is None:
            return self._store.key_exists(key, self.family)
        return any(not self._lifetime.expired(one) for one in self._store.values_iterator(key, self.family))

    def get(self, key: bytes) -> list[bytes]:
        """Return the values of a key that have not expired, in the order in which they were added."""
        self.clean_some()
        kept = list(self._store.values_iterator(key, self.family))
        if self._lifetime is None:
            return kept
        alive = [one for one in kept if not self._lifetime.expired(one)]
        values = [self._lifetime.value(one) for one in (kept if self._lifetime.shows_expired else alive)]
        if self._lifetime.renews_on_read:
            alive = [self._lifetime.stamped(self._lifetime.value(one)) for one in alive]
        if self._lifetime.clears_on_read and alive != kept:
            self._set(key, alive)
        return values

    def add(self, key: bytes, values: Sequence[bytes]) -> None:
        """Append values to the list of a key."""
        self.clean_some()
        kept = self._noted(key, values)
        self._store.merge_list(key, kept, self.family)

    def set(self, key: bytes, values: Sequence[bytes]) -> None:
        """Replace the list of a key. The `ExpiryIndex` still lists the key by the expiry of the replaced values, which
        costs clean-up a needless read of the key.
        """
        self.clean_some()
        self._set(key, self._noted(key, values))

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

    def _noted(self, key: bytes, values: Sequence[bytes]) -> list[bytes]:
        kept = [self._stamped(value) for value in values]
        if self._index is not None and kept:
            self._index.add(key, kept[-1])
        return kept

    def _set(self, key: bytes, kept: Sequence[bytes]) -> None:
        if kept:
            self._store.put_list(key, kept, self.family)
        else:
            self._store.remove(key, self.family)

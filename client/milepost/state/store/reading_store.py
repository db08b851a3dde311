"""A version of a state store that is open for reading, and the uncommitted changes through which a store for writing
reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from milepost.state.errors import EngineFailed, InvalidUse, StoreEnded
from milepost.state.store.contract.stores import Pairs, ReadStateStore
from milepost.state.store.contract.values import DEFAULT_FAMILY, StateStoreId
from milepost.state.store.format.heads import Commit
from milepost.state.store.loading import Loaded
from milepost.state.store.rows import PREFIX_BYTES, Family, Op, Row, Update, after_prefix, fold, outcome, unframed
from milepost.state.store.sorted_map import SortedMap, View

T = TypeVar("T")
_Pending = tuple[int, "bytes | list[bytes]"]
"""An operation and its value. The value of appends is a list of pieces, which are joined when it is read: joining at
each append would take quadratic time.
"""


class Overlay:
    """The uncommitted changes of a state store: for each changed key, a single update (an operation and a value) that
    has the effect of all changes of the key.
    """

    def __init__(self) -> None:
        self._map: SortedMap[_Pending] = SortedMap()

    def __len__(self) -> int:
        return len(self._map)

    def put(self, key: bytes, value: bytes) -> None:
        """Let the update of a key be that it sets this value, whatever it was before."""
        self._map.set(key, (Op.PUT, value))

    def remove(self, key: bytes) -> None:
        """Let the update of a key be that it removes the key, whatever it was before."""
        self._map.set(key, (Op.REMOVE, b""))

    def append(self, key: bytes, value: bytes) -> None:
        """Extend the update of a key so that it also appends this value."""
        self._map.to_change(key)  # called first: a view may read the old value, which joins its pieces
        pending = self._map.values.get(key)
        if pending is None:
            self._map.set(key, (Op.APPEND, value))
        elif isinstance(pending[1], list):
            pending[1].append(value)
        elif pending[0] == Op.REMOVE:
            self._map.set(key, fold((Op.REMOVE, b""), (Op.APPEND, value)))
        else:
            self._map.set(key, (pending[0], [pending[1], value]))

    def get(self, key: bytes) -> Update | None:
        """Return the update of a key; None if the key has no uncommitted change."""
        pending = self._map.values.get(key)
        if pending is None:
            return None
        op, value = pending
        if isinstance(value, bytes):
            return op, value
        joined = b"".join(value)
        self._map.values[key] = op, joined
        return op, joined

    def view(self, start: bytes, end: bytes | None) -> View[Update]:
        """Return the present updates of the keys from ``start`` up to, but not including, ``end``, sorted by key; later
        changes do not affect the result.
        """
        return self._map.view(start, end, self.get)

    def all_rows(self) -> Iterator[Row]:
        """Iterate over the updates of all changed keys, sorted by key."""
        return ((key, *update) for key in sorted(self._map.values) if (update := self.get(key)))

    def drop(self, prefix: bytes) -> None:
        """Discard the updates of all keys that begin with ``prefix``."""
        for key in [key for key in self._map.values if key.startswith(prefix)]:
            self._map.discard(key)


def merged_view(pairs: Iterator[tuple[bytes, bytes]], changes: Iterable[Row]) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the keys and values of a version with the uncommitted ``changes`` applied. ``pairs`` are the keys
    and values of the version; they and the changes are sorted by key.
    """
    pair = next(pairs, None)
    for key, op, new in changes:
        while pair is not None and pair[0] < key:
            yield pair
            pair = next(pairs, None)
        before = None
        if pair is not None and pair[0] == key:
            before = pair[1]
            pair = next(pairs, None)
        value = outcome(before, (op, new))
        if value is not None:
            yield key, value
    while pair is not None:
        yield pair
        pair = next(pairs, None)


class FileReadStore(ReadStateStore):
    """An open state store: a loaded version with uncommitted changes applied; a store for reading has no changes."""

    def __init__(self, store_id: StateStoreId, loaded: Loaded, give_back: Callable[[Loaded], None]) -> None:
        """Open a state store that reads the version ``loaded``. When its use ends, ``give_back`` is called once with
        ``loaded``.
        """
        self._id = store_id
        self._loaded = loaded
        self._give_back = give_back
        self._version = loaded.version
        self._commit = loaded.commit
        self._families = loaded.families
        self._overlay = Overlay()
        self._ended = ""

    @property
    def id(self) -> StateStoreId:
        return self._id

    @property
    def version(self) -> int:
        return self._version

    @property
    def commit_read(self) -> Commit | None:
        """The commit whose version the state store was opened at, None for version 0."""
        return self._commit

    def get(self, key: bytes, family: str = DEFAULT_FAMILY) -> bytes | None:
        return self._value(self._family(family, multiple=False).prefix + key)

    def multi_get(self, keys: Sequence[bytes], family: str = DEFAULT_FAMILY) -> list[bytes | None]:
        prefix = self._family(family, multiple=False).prefix
        found = self._get_many([prefix + key for key in keys])
        if not self._overlay:
            return found
        updates = (self._overlay.get(prefix + key) for key in keys)
        return [outcome(value, update) if update else value for value, update in zip(found, updates, strict=True)]

    def key_exists(self, key: bytes, family: str = DEFAULT_FAMILY) -> bool:
        return self._value(self._family(family).prefix + key) is not None

    def values_iterator(self, key: bytes, family: str = DEFAULT_FAMILY) -> Iterator[bytes]:
        value = self._value(self._family(family, multiple=True).prefix + key)
        return self._guarded(unframed(value or b""))

    def iterator(self, family: str = DEFAULT_FAMILY) -> Pairs:
        return self.prefix_scan(b"", family)

    def iterator_with_multi_values(self, family: str = DEFAULT_FAMILY) -> Pairs:
        return self.prefix_scan_with_multi_values(b"", family)

    def prefix_scan(self, prefix: bytes, family: str = DEFAULT_FAMILY) -> Pairs:
        whole = self._family(family, multiple=False).prefix + prefix
        return self._scan(whole, after_prefix(whole))

    def prefix_scan_with_multi_values(self, prefix: bytes, family: str = DEFAULT_FAMILY) -> Pairs:
        whole = self._family(family, multiple=True).prefix + prefix
        return _each_value(self._scan(whole, after_prefix(whole)))

    def range_scan(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> Pairs:
        return self._scan(*_range(self._family(family, multiple=False), start, end))

    def range_scan_with_multi_values(
        self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY
    ) -> Pairs:
        return _each_value(self._scan(*_range(self._family(family, multiple=True), start, end)))

    def all_column_family_names(self) -> frozenset[str]:
        self._check_open()
        return frozenset(self._families.by_name)

    def abort(self) -> None:
        self._end("was aborted")

    def release(self) -> None:
        self._end("was released")

    def _end(self, how: str) -> None:
        if not self._ended:
            self._ended = how
            self._overlay = Overlay()
            self._give_back(self._loaded)

    def _check_open(self) -> None:
        if self._ended:
            raise StoreEnded(f"version {self._version} of the store {self._ended}")

    def _family(self, name: str, *, multiple: bool | None = None) -> Family:
        """Return the column family ``name``. With ``multiple``, it must have several values for each key (True) or one
        (False). Raises `StoreEnded`, `UnknownFamily`, or `InvalidUse` for a family of the other kind.
        """
        self._check_open()
        family = self._families.named(name)
        if multiple is not None and family.multiple != multiple:
            kept = "several values" if family.multiple else "one value"
            raise InvalidUse(f"the column family {name!r} has {kept} for each key")
        return family

    def _value(self, key: bytes) -> bytes | None:
        update = self._overlay.get(key)
        if update is not None and update[0] == Op.PUT:
            return update[1]
        (value,) = self._get_many((key,))
        return outcome(value, update) if update else value

    def _get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            return self._loaded.engine.get_many(keys)
        except EngineFailed:
            self._loaded.broken = True
            raise

    def _scan(self, start: bytes, end: bytes | None) -> Pairs:
        """Iterate over the keys and values from ``start`` up to, but not including, ``end`` as they are now. Later
        changes do not show: they change the overlay, of which this reads a view, and never the engine.
        """
        changes = self._overlay.view(start, end) if self._overlay else None
        pairs = self._loaded.engine.scan(start, end)
        view = merged_view(pairs, ((key, *update) for key, update in changes)) if changes else pairs
        return self._guarded((key[PREFIX_BYTES:], value) for key, value in view)

    def _guarded(self, found: Iterator[T]) -> Iterator[T]:
        """Yield the items of ``found``. Raises `StoreEnded` as soon as the state store is no longer open."""
        self._check_open()
        try:
            for one in found:
                yield one
                self._check_open()
        except EngineFailed:
            self._loaded.broken = True
            raise


def _each_value(pairs: Pairs) -> Pairs:
    return ((key, value) for key, values in pairs for value in unframed(values))


def _range(family: Family, start: bytes | None, end: bytes | None) -> tuple[bytes, bytes | None]:
    prefix = family.prefix
    return prefix + (start or b""), after_prefix(prefix) if end is None else prefix + end

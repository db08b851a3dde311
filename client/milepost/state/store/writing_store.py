"""A version of a store from which the next version is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milepost.state.errors import InvalidUse
from milepost.state.store.committing import Committed, Committer
from milepost.state.store.contract.stores import StateStore
from milepost.state.store.contract.values import DEFAULT_FAMILY, CheckpointInfo, StateStoreId, StateStoreMetrics
from milepost.state.store.loading import Loaded
from milepost.state.store.reading_store import FileReadStore
from milepost.state.store.rows import framed

MOST_KEY_BYTES = 64 * 1024


class FileStateStore(FileReadStore, StateStore):
    """A loaded version and its changes, which a `Committer` writes as the next version."""

    def __init__(
        self, store_id: StateStoreId, loaded: Loaded, give_back: Callable[[Loaded], None], committer: Committer
    ) -> None:
        super().__init__(store_id, loaded, give_back)
        self._committer = committer
        self._removed: list[int] = []
        self._committed: Committed | None = None

    def put(self, key: bytes, value: bytes, family: str = DEFAULT_FAMILY) -> None:
        found = self._family(family)
        _check(key, value)
        self._overlay.put(found.prefix + key, framed((value,)) if found.multiple else value)
        self._committer.forget()

    def put_list(self, key: bytes, values: Sequence[bytes], family: str = DEFAULT_FAMILY) -> None:
        found = self._family(family, multiple=True)
        _check(key, *values)
        if not values:
            raise InvalidUse("a key has one value at least: remove it to have none")
        self._overlay.put(found.prefix + key, framed(values))
        self._committer.forget()

    def merge(self, key: bytes, value: bytes, family: str = DEFAULT_FAMILY) -> None:
        self.merge_list(key, (value,), family)

    def merge_list(self, key: bytes, values: Sequence[bytes], family: str = DEFAULT_FAMILY) -> None:
        found = self._family(family, multiple=True)
        _check(key, *values)
        if values:
            self._overlay.append(found.prefix + key, framed(values))
            self._committer.forget()

    def remove(self, key: bytes, family: str = DEFAULT_FAMILY) -> None:
        prefix = self._family(family).prefix
        _check(key)
        self._overlay.remove(prefix + key)
        self._committer.forget()

    def delete_range(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> None:
        found = self._family(family)
        scan = self.range_scan_with_multi_values if found.multiple else self.range_scan
        for key, _ in scan(start, end, family):
            self._overlay.remove(found.prefix + key)
        self._committer.forget()

    def create_column_family_if_absent(self, family: str, *, multiple_values_per_key: bool = False) -> None:
        self._check_open()
        self._families = self._families.with_family(family, multiple=multiple_values_per_key)
        self._committer.forget()

    def remove_column_family_if_exists(self, family: str) -> bool:
        self._check_open()
        found = self._families.by_name.get(family)
        if found is None:
            return False
        self._families = self._families.without_family(family)
        self._overlay.drop(found.prefix)
        self._removed.append(found.number)
        self._committer.forget()
        return True

    def commit(self) -> int:
        self._check_open()
        self._committed = self._committer.commit(self._loaded, self._families, self._removed, self._overlay)
        self._end("was committed")
        return self._committed.info.version

    def release(self) -> None:
        self.abort()

    @property
    def has_committed(self) -> bool:
        return self._committed is not None

    @property
    def metrics(self) -> StateStoreMetrics:
        if self._committed is not None:
            return self._committed.metrics
        memory = 0 if self._ended else self._loaded.engine.memory_bytes()
        return StateStoreMetrics(self._loaded.keys, memory, {})

    @property
    def checkpoint_info(self) -> CheckpointInfo:
        if self._committed is None:
            raise InvalidUse(f"version {self._version} of the store was not committed")
        return self._committed.info


def _check(key: bytes, *values: bytes) -> None:
    """Refuse a key that is not bytes, or is too large for a row of a file."""
    for one in (key, *values):
        if type(one) is not bytes:
            raise InvalidUse("keys and values of a store are bytes; a coder makes them")
    if len(key) > MOST_KEY_BYTES:
        raise InvalidUse(f"a key has at most {MOST_KEY_BYTES} bytes, not {len(key)}")

"""A state store that is open for writing: a loaded version, its changes, and the commit that writes them as the next
version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from milepost.state.errors import CommitUnknown, EngineFailed, InvalidUse, WriteUnknown
from milepost.state.store.contract.stores import StateStore
from milepost.state.store.contract.values import DEFAULT_FAMILY, CheckpointInfo, StateStoreId, StateStoreMetrics
from milepost.state.store.engines.engine import Engine
from milepost.state.store.format.files import Written, body_of, file_of
from milepost.state.store.format.heads import Commit, DeltaHead
from milepost.state.store.format.names import Kind, StateFileName
from milepost.state.store.history import History
from milepost.state.store.loading import Loaded, remove_family
from milepost.state.store.reading_store import FileReadStore, Overlay
from milepost.state.store.rows import Families, Row, after_prefix, framed, outcome, prefix_of

_log = logging.getLogger(__name__)
MOST_KEY_BYTES = 64 * 1024
MOST_VALUE_BYTES = 1 << 30
"""The most bytes of a value, or of all values of a key together. A record batch cannot contain two gibibytes."""

_CHUNK = 256
"""The number of changed keys whose old values a commit reads from the engine at a time."""

METRICS = frozenset({"changes", "bytes_written", "commit_milliseconds"})


class FileStateStore(FileReadStore, StateStore):
    """A state store that is open for writing: a loaded version, and changes that `commit` writes as the next
    version.
    """

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
    """Raise `InvalidUse` if the key or a value is not bytes, or the key has more than `MOST_KEY_BYTES`."""
    for one in (key, *values):
        if type(one) is not bytes:
            raise InvalidUse("keys and values of a store are bytes; a coder makes them")
    if len(key) > MOST_KEY_BYTES:
        raise InvalidUse(f"a key has at most {MOST_KEY_BYTES} bytes, not {len(key)}")


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a state store's commit: the report for the driver, and the metrics."""

    info: CheckpointInfo
    metrics: StateStoreMetrics


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A commit of a state store that is ready to be written. If an attempt to write it is repeated, it writes the same
    file, so that at most one commit is made.
    """

    commit: Commit
    head: DeltaHead
    file: Written
    rows: int
    changes: list[tuple[bytes, bytes | None]]


class Committer:
    """Makes the commit of a state store. The commit may be attempted several times; as long as the store has not
    changed, every attempt writes the same file.
    """

    def __init__(self, history: History, lineage_of: Callable[[Loaded], tuple[Commit, ...]]) -> None:
        """``history`` has the commits of the state store. ``lineage_of`` returns the commit of a loaded version and its
        predecessors, newest first.
        """
        self._history = history
        self._lineage_of = lineage_of
        self._prepared: _Prepared | None = None

    def forget(self) -> None:
        """Discard the prepared commit, because the state store was changed; the next attempt prepares a new one."""
        self._prepared = None

    def commit(self, loaded: Loaded, families: Families, removed: Sequence[int], overlay: Overlay) -> Committed:
        """Write the changes in ``overlay`` as the next version, and change ``loaded`` into that version. ``families``
        has its column families, and ``removed`` the numbers of the removed ones.

        Raises `CommitUnknown`, or, if certainly nothing was written, `FilesError`, `EngineFailed` or `InvalidUse`. The
        commit is made as soon as its file exists. If the engine fails after that, the commit stays valid, and
        ``loaded`` is ``broken``: the version is loaded again when it is next opened.
        """
        began = time.monotonic()
        if self._prepared is None:
            try:
                self._prepared = self._prepare(loaded, families, removed, overlay)
            except EngineFailed:
                loaded.broken = True
                raise
        ready = self._prepared
        version, id = ready.commit
        try:
            written = self._history.create(StateFileName(Kind.DELTA, version, id), ready.file)
        except WriteUnknown as error:
            raise CommitUnknown(f"it is not known whether version {version} was committed as {id}: {error}") from error
        self._history.remember(ready.commit, ready.head)
        base_id = loaded.commit[1] if loaded.commit else None
        self._bring(loaded, ready, removed)
        milliseconds = round(1000 * (time.monotonic() - began))
        numbers = {"changes": ready.rows, "bytes_written": written, "commit_milliseconds": milliseconds}
        return Committed(
            CheckpointInfo(self._history.store.partition, version, id, base_id),
            StateStoreMetrics(ready.head.keys, loaded.engine.memory_bytes() if not loaded.broken else 0, numbers),
        )

    def _prepare(self, loaded: Loaded, families: Families, removed: Sequence[int], overlay: Overlay) -> _Prepared:
        rows = list(overlay.all_rows())
        keys = loaded.keys - sum(_count(loaded.engine, number) for number in removed)
        changes: list[tuple[bytes, bytes | None]] = []
        for chunk in _chunks(rows):
            before = loaded.engine.get_many([key for key, _, _ in chunk])
            after = [outcome(value, (op, new)) for value, (_, op, new) in zip(before, chunk, strict=True)]
            if any(value is not None and len(value) > MOST_VALUE_BYTES for value in after):
                raise InvalidUse(f"a value, or all values of a key, have at most {MOST_VALUE_BYTES} bytes")
            keys += sum(value is not None for value in after) - sum(value is not None for value in before)
            changes += zip((key for key, _, _ in chunk), after, strict=True)
        head = DeltaHead(loaded.version + 1, self._lineage_of(loaded), families, keys)
        file = file_of(self._history.store, head, body_of(rows))
        return _Prepared((head.version, file.digest), head, file, len(rows), changes)

    @staticmethod
    def _bring(loaded: Loaded, ready: _Prepared, removed: Sequence[int]) -> None:
        try:
            for number in removed:
                remove_family(loaded.engine, number)
            loaded.engine.apply(ready.changes)
        except EngineFailed as error:
            _log.warning(
                "version %d was committed, and will be loaded anew when it is opened: %s", ready.commit[0], error
            )
            loaded.broken = True
            return
        loaded.commit, loaded.families, loaded.keys = ready.commit, ready.head.families, ready.head.keys


def _chunks(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))


def _count(engine: Engine, number: int) -> int:
    prefix = prefix_of(number)
    return sum(1 for _ in engine.scan(prefix, after_prefix(prefix)))

"""The contract of a state store: `ReadStateStore` for reading one version, `StateStore` for making the next, and
`StateStoreProvider` for opening any version.

A state store may be used by one thread only. Keys and values are bytes, and keys are sorted by their bytes. Without
``family``, a method uses the default column family.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from milepost.state.store.contract.values import DEFAULT_FAMILY, Change, CheckpointInfo, StateStoreId, StateStoreMetrics

Pairs = Iterator[tuple[bytes, bytes]]


class ReadStateStore(ABC):
    """One version of a state store, open for reading (Spark's ``ReadStateStore``).

    Every method but `release` and `abort` raises `StoreEnded` once the store is released. A column family has either
    one value for each key or several; a method for the other kind raises `InvalidUse`. A family that does not exist
    raises `UnknownFamily`. An iterator shows the store as it was when the iterator was made, and raises `StoreEnded`
    once the store ends.
    """

    @property
    @abstractmethod
    def id(self) -> StateStoreId:
        """The id of the state store (Spark's ``id``)."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version at which the state store was opened (Spark's ``version``)."""

    @abstractmethod
    def get(self, key: bytes, family: str = DEFAULT_FAMILY) -> bytes | None:
        """Return the value of a key, or None if there is no such key (Spark's ``get``)."""

    @abstractmethod
    def multi_get(self, keys: Sequence[bytes], family: str = DEFAULT_FAMILY) -> list[bytes | None]:
        """Return the value of each key, in the order of ``keys``; None for a key that does not exist (Spark's
        ``multiGet``).
        """

    @abstractmethod
    def key_exists(self, key: bytes, family: str = DEFAULT_FAMILY) -> bool:
        """Return whether a key exists, in a column family of either kind: with one value or several for each key
        (Spark's ``keyExists``).
        """

    @abstractmethod
    def values_iterator(self, key: bytes, family: str = DEFAULT_FAMILY) -> Iterator[bytes]:
        """Iterate over the values of a key in the order in which they were added; yield nothing if there is no such key
        (Spark's ``valuesIterator``).
        """

    @abstractmethod
    def iterator(self, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over all keys and their values, sorted by key (Spark's ``iterator``)."""

    @abstractmethod
    def iterator_with_multi_values(self, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over all keys and values, sorted by key; a key comes once for each of its values (Spark's
        ``iteratorWithMultiValues``).
        """

    @abstractmethod
    def prefix_scan(self, prefix: bytes, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over the keys that begin with a prefix, and their values, sorted by key (Spark's ``prefixScan``)."""

    @abstractmethod
    def prefix_scan_with_multi_values(self, prefix: bytes, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over the keys that begin with a prefix, and their values, sorted by key; a key comes once for each of
        its values (Spark's ``prefixScanWithMultiValues``).
        """

    @abstractmethod
    def range_scan(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, and their values, sorted by key; None
        leaves an end open (Spark's ``rangeScan``).
        """

    @abstractmethod
    def range_scan_with_multi_values(
        self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY
    ) -> Pairs:
        """Iterate over the keys and values of a range as `range_scan` does; a key comes once for each of its values
        (Spark's ``rangeScanWithMultiValues``).
        """

    @abstractmethod
    def all_column_family_names(self) -> frozenset[str]:
        """Return the names of all column families (Spark's ``allColumnFamilyNames``)."""

    @abstractmethod
    def abort(self) -> None:
        """End the use of this open state store without a commit; do nothing if it has ended (Spark's ``abort``)."""

    @abstractmethod
    def release(self) -> None:
        """End the use of this open state store (Spark's ``release``): the same as `abort` for a store that is only
        read.
        """


class StateStore(ReadStateStore):
    """One version of a state store, and the changes that make the next version of it (Spark's ``StateStore``).

    Reading shows the changes made so far. `commit` or `abort` ends the store; after that only `metrics`,
    `has_committed` and `checkpoint_info` may be called.
    """

    @abstractmethod
    def put(self, key: bytes, value: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Set the value of a key (Spark's ``put``). In a column family with several values for each key, replace all of
        them by this one.
        """

    @abstractmethod
    def put_list(self, key: bytes, values: Sequence[bytes], family: str = DEFAULT_FAMILY) -> None:
        """Replace all values of a key by ``values``, at least one (Spark's ``putList``)."""

    @abstractmethod
    def merge(self, key: bytes, value: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Append a value to the values of a key, without reading them (Spark's ``merge``)."""

    @abstractmethod
    def merge_list(self, key: bytes, values: Sequence[bytes], family: str = DEFAULT_FAMILY) -> None:
        """Append values to the values of a key, without reading them (Spark's ``mergeList``)."""

    @abstractmethod
    def remove(self, key: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Remove a key, if it exists (Spark's ``remove``)."""

    @abstractmethod
    def delete_range(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> None:
        """Remove the keys from ``start`` up to, but not including, ``end``; None leaves an end open (Spark's
        ``deleteRange``).
        """

    @abstractmethod
    def create_column_family_if_absent(self, family: str, *, multiple_values_per_key: bool = False) -> None:
        """Create a column family, unless it exists (Spark's ``createColFamilyIfAbsent``). It has one value for each
        key, or several if ``multiple_values_per_key``.

        Raises `InvalidUse` if a family of the name exists, but of the other kind.
        """

    @abstractmethod
    def remove_column_family_if_exists(self, family: str) -> bool:
        """Remove a column family with all its keys, and return whether it existed (Spark's
        ``removeColFamilyIfExists``).
        """

    @abstractmethod
    def commit(self) -> int:
        """Write the changes as the next version, and return its number (Spark's ``commit``).

        If the call raises an error below `FilesError`, or `InvalidUse` for a value that is too large, nothing was
        written. After such an error, and after `CommitUnknown`, the store still has its changes, and `commit` or
        `abort` may be called again.
        """

    @property
    @abstractmethod
    def has_committed(self) -> bool:
        """Whether the changes were committed (Spark's ``hasCommitted``)."""

    @property
    @abstractmethod
    def metrics(self) -> StateStoreMetrics:
        """Metrics of the state store (Spark's ``metrics``)."""

    @property
    @abstractmethod
    def checkpoint_info(self) -> CheckpointInfo:
        """The version and the id of the commit, which the task reports to the driver (Spark's
        ``getStateStoreCheckpointInfo``).

        Raises `InvalidUse` before the commit.
        """


class StateStoreProvider(ABC):
    """Opens any kept version of one state store (Spark's ``StateStoreProvider``). Threads may share a provider.

    A version is identified by its number, and by the id of the commit that made it. Several attempts of a task may
    commit the same number under different ids; the driver knows which of these ids counts. Without an id, a version is
    opened only if a single commit has its number; otherwise `Diverged` lists the ids. Version 0 is empty and has no id.
    """

    @abstractmethod
    def init(self, store_id: StateStoreId, *, multiple_values_per_key: bool = False) -> None:
        """Set the id of the state store, before any other call (Spark's ``init``).

        ``multiple_values_per_key`` says whether the default column family has several values for each key.
        """

    @property
    @abstractmethod
    def state_store_id(self) -> StateStoreId:
        """The id of the state store (Spark's ``stateStoreId``)."""

    @abstractmethod
    def get_store(self, version: int, id: str | None = None) -> StateStore:
        """Open a version for changes, which `StateStore.commit` writes as the next version (Spark's ``getStore``).
        Raises `VersionNotFound`, `Diverged`, `StateDamaged`.
        """

    @abstractmethod
    def get_read_store(self, version: int, id: str | None = None) -> ReadStateStore:
        """Open a version for reading (Spark's ``getReadStore``). Raises the errors of `get_store`."""

    @abstractmethod
    def upgrade_read_store_to_write_store(self, store: ReadStateStore) -> StateStore:
        """Turn a state store that is open for reading into one that makes the next version (Spark's
        ``upgradeReadStoreToWriteStore``).

        The use of ``store`` ends; the new store takes over its loaded version without loading it again.
        """

    @abstractmethod
    def latest_version(self) -> int:
        """Return the number of the newest version of the state store; 0 if there is none. (Spark has no such method:
        its driver knows the version.)
        """

    @abstractmethod
    def replay_state_from_snapshot(self, snapshot_version: int, end_version: int, id: str | None = None) -> StateStore:
        """Open the version ``end_version`` for changes, by loading the snapshot of ``snapshot_version`` and the commits
        after it (Spark's ``SupportsFineGrainedReplay.replayStateFromSnapshot``).
        """

    @abstractmethod
    def replay_read_state_from_snapshot(
        self, snapshot_version: int, end_version: int, id: str | None = None
    ) -> ReadStateStore:
        """Open the version ``end_version`` for reading, by loading the snapshot of ``snapshot_version`` and the commits
        after it (Spark's ``SupportsFineGrainedReplay.replayReadStateFromSnapshot``).
        """

    @abstractmethod
    def changes(
        self, start_version: int, end_version: int, *, id: str | None = None, family: str | None = None
    ) -> Iterator[Change]:
        """Iterate over the changes that the commits from ``start_version`` to ``end_version``, both included, made,
        oldest commit first and then by key (Spark's ``StateStoreChangeDataReader``). ``id`` is the id of the last of
        these commits. With ``family``, yield only the changes in that column family. The removal of a column family
        yields no changes.
        """

    @abstractmethod
    def pin(self, name: str, version: int, id: str | None = None) -> None:
        """Pin a version of the state store under a name: clean-up keeps the files of the version until `unpin`. (Spark
        has no such method.)
        """

    @abstractmethod
    def unpin(self, name: str) -> None:
        """Remove the pin of this name, which `pin` made; clean-up may then remove the files of the pinned version."""

    @abstractmethod
    def do_maintenance(self) -> None:
        """Make a snapshot of the state store if one is due, and then remove files that are not needed (Spark's
        ``doMaintenance``). A background thread calls this regularly; a program may call it as well.
        """

    @abstractmethod
    def do_snapshot_maintenance(self) -> None:
        """Make a snapshot of the state store if one is due, so that loading it reads fewer commits (Spark's
        ``doSnapshotMaintenance``).
        """

    @abstractmethod
    def do_cleanup_maintenance(self) -> None:
        """Remove the files of the state store that no kept version needs (Spark's ``doCleanupMaintenance``)."""

    @property
    @abstractmethod
    def supported_custom_metrics(self) -> frozenset[str]:
        """The names of the metrics in ``StateStoreMetrics.custom`` (Spark's ``supportedCustomMetrics``)."""

    @abstractmethod
    def close(self) -> None:
        """Close all loaded versions (Spark's ``close``). A version that is still open in a state store is closed when
        the use of that store ends, and a maintenance run that has begun is completed.
        """

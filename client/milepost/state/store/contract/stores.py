"""The contract of a store: `ReadStateStore` for reading one version, `StateStore` for making the next.

A store may be used by one thread only. Keys and values are bytes, and keys are sorted by their bytes. Without
``family``, a method uses the default column family.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from milepost.state.store.contract.values import DEFAULT_FAMILY, Change, CheckpointInfo, StateStoreId, StateStoreMetrics

Pairs = Iterator[tuple[bytes, bytes]]


class ReadStateStore(ABC):
    """One version of a store, open for reading (``ReadStateStore``).

    Every method but `release` and `abort` raises `StoreEnded` once the store is released. A column family has either
    one value for each key or several; a method for the other kind raises `InvalidUse`. A family that does not exist
    raises `UnknownFamily`. An iterator shows the store as it was when the iterator was made, and raises `StoreEnded`
    once the store ends.
    """

    @property
    @abstractmethod
    def id(self) -> StateStoreId:
        """The id of the store (``id``)."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version at which the store was opened (``version``)."""

    @abstractmethod
    def get(self, key: bytes, family: str = DEFAULT_FAMILY) -> bytes | None:
        """Return the value of a key, or None if there is no such key (``get``)."""

    @abstractmethod
    def multi_get(self, keys: Sequence[bytes], family: str = DEFAULT_FAMILY) -> list[bytes | None]:
        """Return the value of each key, in the order of the keys (``multiGet``)."""

    @abstractmethod
    def key_exists(self, key: bytes, family: str = DEFAULT_FAMILY) -> bool:
        """Return whether a key exists, in a family with one value or several values for a key (``keyExists``)."""

    @abstractmethod
    def values_iterator(self, key: bytes, family: str = DEFAULT_FAMILY) -> Iterator[bytes]:
        """Iterate over the values of a key in the order they were added; empty if there is no such key
        (``valuesIterator``).
        """

    @abstractmethod
    def iterator(self, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over all keys and their values, sorted by key (``iterator``)."""

    @abstractmethod
    def iterator_with_multi_values(self, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over all keys, sorted; a key comes once for each of its values (``iteratorWithMultiValues``)."""

    @abstractmethod
    def prefix_scan(self, prefix: bytes, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over the keys that begin with a prefix, and their values, sorted by key (``prefixScan``)."""

    @abstractmethod
    def prefix_scan_with_multi_values(self, prefix: bytes, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over the keys that begin with a prefix; a key comes once for each of its values
        (``prefixScanWithMultiValues``).
        """

    @abstractmethod
    def range_scan(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, sorted; None leaves an end open
        (``rangeScan``).
        """

    @abstractmethod
    def range_scan_with_multi_values(
        self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY
    ) -> Pairs:
        """Iterate over the keys of a range as `range_scan` does; a key comes once for each of its values
        (``rangeScanWithMultiValues``).
        """

    @abstractmethod
    def all_column_family_names(self) -> frozenset[str]:
        """Return the names of all column families (``allColumnFamilyNames``)."""

    @abstractmethod
    def abort(self) -> None:
        """End the store without a commit; do nothing if it has ended (``abort``)."""

    @abstractmethod
    def release(self) -> None:
        """End the store (``release``): the same as `abort` for a store that is only read."""


class StateStore(ReadStateStore):
    """One version of a store, and the changes that make the next version of it (``StateStore``).

    Reading shows the changes made so far. `commit` or `abort` ends the store; after that only `metrics`,
    `has_committed` and `checkpoint_info` may be called.
    """

    @abstractmethod
    def put(self, key: bytes, value: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Set the value of a key; in a family with several values, set its only value (``put``)."""

    @abstractmethod
    def put_list(self, key: bytes, values: Sequence[bytes], family: str = DEFAULT_FAMILY) -> None:
        """Set all values of a key, at least one (``putList``)."""

    @abstractmethod
    def merge(self, key: bytes, value: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Append a value to the values of a key, without reading these (``merge``)."""

    @abstractmethod
    def merge_list(self, key: bytes, values: Sequence[bytes], family: str = DEFAULT_FAMILY) -> None:
        """Append values to the values of a key, without reading these (``mergeList``)."""

    @abstractmethod
    def remove(self, key: bytes, family: str = DEFAULT_FAMILY) -> None:
        """Remove a key, if it exists (``remove``)."""

    @abstractmethod
    def delete_range(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> None:
        """Remove the keys from ``start`` up to, but not including, ``end``; None leaves an end open
        (``deleteRange``).
        """

    @abstractmethod
    def create_column_family_if_absent(self, family: str, *, multiple_values_per_key: bool = False) -> None:
        """Create a column family with one value for each key, or several, unless it exists
        (``createColFamilyIfAbsent``).

        Raises `InvalidUse` if a family of the name exists, but of the other kind.
        """

    @abstractmethod
    def remove_column_family_if_exists(self, family: str) -> bool:
        """Remove a column family with all its keys, and return whether it existed (``removeColFamilyIfExists``)."""

    @abstractmethod
    def commit(self) -> int:
        """Write the changes, and return the new version (``commit``).

        If the call raises an error below `FilesError`, or `InvalidUse` for a value that is too large, nothing was
        written. After such an error, and after `CommitUnknown`, the store still has its changes, and `commit` or
        `abort` may be called again.
        """

    @property
    @abstractmethod
    def has_committed(self) -> bool:
        """Whether the changes were committed (``hasCommitted``)."""

    @property
    @abstractmethod
    def metrics(self) -> StateStoreMetrics:
        """Metrics of the store (``metrics``)."""

    @property
    @abstractmethod
    def checkpoint_info(self) -> CheckpointInfo:
        """The version and the id of the commit, which the task reports to the driver (``getStateStoreCheckpointInfo``).

        Raises `InvalidUse` before the commit.
        """


class StateStoreProvider(ABC):
    """Opens any kept version of one store (``StateStoreProvider``). Threads may share a provider.

    A version is identified by its number, and by the id of the commit that made it. Several attempts of a task may
    commit the same number under different ids; the driver knows which of these ids counts. Without an id, a version is
    opened only if a single commit has its number; otherwise `Diverged` lists the ids. Version 0 is empty and has no id.
    """

    @abstractmethod
    def init(self, store_id: StateStoreId, *, multiple_values_per_key: bool = False) -> None:
        """Set the id of the store, before any other call (``init``).

        ``multiple_values_per_key`` says whether the default column family has several values for each key.
        """

    @property
    @abstractmethod
    def state_store_id(self) -> StateStoreId:
        """The id of the store (``stateStoreId``)."""

    @abstractmethod
    def get_store(self, version: int, id: str | None = None) -> StateStore:
        """Open a version to make the next one (``getStore``). Raises `VersionNotFound`, `Diverged`, `StateDamaged`."""

    @abstractmethod
    def get_read_store(self, version: int, id: str | None = None) -> ReadStateStore:
        """Open a version for reading (``getReadStore``). Raises the errors of `get_store`."""

    @abstractmethod
    def upgrade_read_store_to_write_store(self, store: ReadStateStore) -> StateStore:
        """Turn an open read store into a store that makes the next version (``upgradeReadStoreToWriteStore``).

        The read store ends, and the new store takes over its loaded version without loading it again.
        """

    @abstractmethod
    def latest_version(self) -> int:
        """Return the number of the newest version that exists; 0 if there is none. (Spark has no such method: its
        driver knows the version.)
        """

    @abstractmethod
    def replay_state_from_snapshot(self, snapshot_version: int, end_version: int, id: str | None = None) -> StateStore:
        """Open a version by loading the snapshot of ``snapshot_version`` and the commits after it
        (``SupportsFineGrainedReplay.replayStateFromSnapshot``).
        """

    @abstractmethod
    def replay_read_state_from_snapshot(
        self, snapshot_version: int, end_version: int, id: str | None = None
    ) -> ReadStateStore:
        """Open a version for reading by loading the snapshot of ``snapshot_version`` and the commits after it
        (``SupportsFineGrainedReplay.replayReadStateFromSnapshot``).
        """

    @abstractmethod
    def changes(
        self, start_version: int, end_version: int, *, id: str | None = None, family: str | None = None
    ) -> Iterator[Change]:
        """Iterate over the changes that the commits of these versions made, both versions included, oldest first and
        then by key (``StateStoreChangeDataReader``). ``id`` is the id of the last version. The removal of a column
        family yields no changes.
        """

    @abstractmethod
    def pin(self, name: str, version: int, id: str | None = None) -> None:
        """Pin a version under a name: clean-up keeps its files until `unpin`. (Spark has no such method.)"""

    @abstractmethod
    def unpin(self, name: str) -> None:
        """Remove the pin of this name; clean-up may then remove the files of its version."""

    @abstractmethod
    def do_maintenance(self) -> None:
        """Make a snapshot if one is due, then clean up (``doMaintenance``). A background thread calls this regularly; a
        program may call it as well.
        """

    @abstractmethod
    def do_snapshot_maintenance(self) -> None:
        """Make a snapshot if one is due (``doSnapshotMaintenance``)."""

    @abstractmethod
    def do_cleanup_maintenance(self) -> None:
        """Remove the files that no kept version needs (``doCleanupMaintenance``)."""

    @property
    @abstractmethod
    def supported_custom_metrics(self) -> frozenset[str]:
        """The names of the metrics in ``StateStoreMetrics.custom`` (``supportedCustomMetrics``)."""

    @abstractmethod
    def close(self) -> None:
        """Close all loaded versions (``close``). The version of a store that has not ended stays open until that end,
        and a maintenance run that has begun is completed.
        """

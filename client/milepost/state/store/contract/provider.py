"""The contract of a provider, which opens the versions of one store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from milepost.state.store.contract.stores import ReadStateStore, StateStore
from milepost.state.store.contract.values import Change, StateStoreId


class StateStoreProvider(ABC):
    """Opens any kept version of one store (``StateStoreProvider``). Threads may share a provider.

    A version is identified by its number, and by the id of the commit that made it. A driver knows which id is the
    version of its job. Without an id, a version is opened only if a single commit has its number; otherwise `Diverged`
    names the commits. Version 0 is empty and has no id.
    """

    @abstractmethod
    def init(self, store_id: StateStoreId, *, multiple_values_per_key: bool = False) -> None:
        """Set the id of the store, before any other call (``init``).

        ``multiple_values_per_key`` is the kind of the default column family.
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
        """Return the newest existing version; 0 if there is none. (Spark's driver knows it by itself.)"""

    @abstractmethod
    def replay_state_from_snapshot(self, snapshot_version: int, end_version: int, id: str | None = None) -> StateStore:
        """Open a version from this snapshot and the commits after it
        (``SupportsFineGrainedReplay.replayStateFromSnapshot``).
        """

    @abstractmethod
    def replay_read_state_from_snapshot(
        self, snapshot_version: int, end_version: int, id: str | None = None
    ) -> ReadStateStore:
        """Open a version for reading, from this snapshot and the commits after it
        (``SupportsFineGrainedReplay.replayReadStateFromSnapshot``).
        """

    @abstractmethod
    def changes(
        self, start_version: int, end_version: int, *, id: str | None = None, family: str | None = None
    ) -> Iterator[Change]:
        """Iterate over the changes that the commits of these versions made, both versions included, oldest first and
        then by key (``StateStoreChangeDataReader``). ``id`` is that of the last version. A removed family shows no
        changes.
        """

    @abstractmethod
    def pin(self, name: str, version: int, id: str | None = None) -> None:
        """Keep a version under a name until it is unpinned, whatever clean-up removes otherwise. (Spark has no such
        method.)
        """

    @abstractmethod
    def unpin(self, name: str) -> None:
        """Remove the pin of this name, so that clean-up may remove its version as any other."""

    @abstractmethod
    def do_maintenance(self) -> None:
        """Make a snapshot if one is due, then clean up (``doMaintenance``). A thread calls this as long as the process
        lives; a program may call it as well.
        """

    @abstractmethod
    def do_snapshot_maintenance(self) -> None:
        """Make a snapshot if one is due (``doSnapshotMaintenance``)."""

    @abstractmethod
    def do_cleanup_maintenance(self) -> None:
        """Remove what no kept version needs (``doCleanupMaintenance``)."""

    @property
    @abstractmethod
    def supported_custom_metrics(self) -> frozenset[str]:
        """The names of the metrics in ``StateStoreMetrics.custom`` (``supportedCustomMetrics``)."""

    @abstractmethod
    def close(self) -> None:
        """Close all loaded versions, except those of stores that have not ended yet (``close``). A maintenance run that
        has begun continues to its end.
        """

"""The contract of a provider, which opens the versions of one store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from milepost.state.store.contract.stores import ReadStateStore, StateStore
from milepost.state.store.contract.values import Change, StateStoreId


class StateStoreProvider(ABC):
    """Opens any kept version of one store (``StateStoreProvider``). Threads may share a provider.

    A version is known by its number, and by the id of the commit that made it. A driver says which id is the version of
    its job. Without an id, a version is opened only where one commit alone has it; `Diverged` names them where not.
    Version 0 is empty and has no id.
    """

    @abstractmethod
    def init(self, store_id: StateStoreId, *, multiple_values_per_key: bool = False) -> None:
        """Say which store this is, before anything else (``init``).

        ``multiple_values_per_key`` is the kind of the default column family.
        """

    @property
    @abstractmethod
    def state_store_id(self) -> StateStoreId:
        """Which store this is (``stateStoreId``)."""

    @abstractmethod
    def get_store(self, version: int, id: str | None = None) -> StateStore:
        """Open a version for making the next (``getStore``). Raises `VersionNotFound`, `Diverged`, `StateDamaged`."""

    @abstractmethod
    def get_read_store(self, version: int, id: str | None = None) -> ReadStateStore:
        """Open a version for reading (``getReadStore``). Raises the same."""

    @abstractmethod
    def upgrade_read_store_to_write_store(self, store: ReadStateStore) -> StateStore:
        """Open the version of a store that is read for making the next (``upgradeReadStoreToWriteStore``).

        The store that was read ends with it, and what it had loaded is not loaded again.
        """

    @abstractmethod
    def latest_version(self) -> int:
        """Return the newest version that is there; 0 if there is none. (Spark's driver knows it by itself.)"""

    @abstractmethod
    def replay_state_from_snapshot(self, snapshot_version: int, end_version: int, id: str | None = None) -> StateStore:
        """Open a version from this snapshot and what was committed after it
        (``SupportsFineGrainedReplay.replayStateFromSnapshot``).
        """

    @abstractmethod
    def replay_read_state_from_snapshot(
        self, snapshot_version: int, end_version: int, id: str | None = None
    ) -> ReadStateStore:
        """Open the same for reading (``SupportsFineGrainedReplay.replayReadStateFromSnapshot``)."""

    @abstractmethod
    def changes(
        self, start_version: int, end_version: int, *, id: str | None = None, family: str | None = None
    ) -> Iterator[Change]:
        """Iterate what the commits of these versions changed, both included, oldest first and then by key
        (``StateStoreChangeDataReader``). ``id`` is that of the last version. A removed family shows no changes.
        """

    @abstractmethod
    def pin(self, name: str, version: int, id: str | None = None) -> None:
        """Keep a version under a name until it is unpinned, whatever else is cleaned up. (Spark has none.)"""

    @abstractmethod
    def unpin(self, name: str) -> None:
        """Keep the version of this name no longer than others."""

    @abstractmethod
    def do_maintenance(self) -> None:
        """Make a snapshot if one is due, then clean up (``doMaintenance``). A thread does this as long as the process
        lives; it may be called by hand as well.
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
        """The names in ``StateStoreMetrics.custom`` (``supportedCustomMetrics``)."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything that is open, but for stores that have not ended yet (``close``). Maintenance that has
        begun goes on to its end.
        """

"""A coordinator within one process, for jobs whose executors all run in that process."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Collection, Mapping

from milepost.state.store.contract.coordinator import StateStoreCoordinator
from milepost.state.store.contract.values import ExecutorLocation, StateStoreId


def this_executor() -> ExecutorLocation:
    """Return a location for this process, with an id that no other process has or will have.

    Each Python worker is an executor of its own, since its loaded stores are in its own memory.
    """
    host = os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.gethostname()
    executor = os.environ.get("SPARK_EXECUTOR_ID", "python")
    return ExecutorLocation(host, f"{executor}-{os.getpid()}-{secrets.token_hex(4)}")


class InProcessRecord:
    """Records which executor has which store loaded. All executors in the process share it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.locations: dict[StateStoreId, ExecutorLocation] = {}
        self.snapshots: dict[StateStoreId, int] = {}

    def coordinator(self, location: ExecutorLocation) -> StateStoreCoordinator:
        """Return the coordinator of the executor at ``location``."""
        return _InProcessCoordinator(self, location)


class _InProcessCoordinator(StateStoreCoordinator):
    def __init__(self, record: InProcessRecord, location: ExecutorLocation) -> None:
        self._record = record
        self._location = location

    def report_active(self, store: StateStoreId, others: Collection[StateStoreId]) -> Collection[StateStoreId]:
        with self._record.lock:
            self._record.locations[store] = self._location
            return [other for other in others if self._record.locations.get(other, self._location) != self._location]

    def verify_active(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        with self._record.lock:
            return [store for store in stores if self._record.locations.get(store) == self._location]

    def locations(self, stores: Collection[StateStoreId]) -> Mapping[StateStoreId, ExecutorLocation]:
        with self._record.lock:
            known = self._record.locations
            return {store: known[store] for store in stores if store in known}

    def snapshot_made(self, store: StateStoreId, version: int) -> None:
        with self._record.lock:
            self._record.snapshots[store] = max(version, self._record.snapshots.get(store, 0))

    def deactivate(self, stores: Collection[StateStoreId]) -> None:
        with self._record.lock:
            for store in stores:
                if self._record.locations.get(store) == self._location:
                    del self._record.locations[store]

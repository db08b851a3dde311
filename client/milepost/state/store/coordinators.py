"""A coordinator knows which executor has loaded which store. This module has its contract, and a coordinator for
executors that run in one process.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping

from milepost.state.store.contract.values import ExecutorLocation, StateStoreId


class StateStoreCoordinator(ABC):
    """Records which executor has loaded which store of one run of a query; one executor reports to it and asks it
    (``StateStoreCoordinatorRef``).

    The answers are hints, on which correctness does not depend. So no method raises an error if the coordinator cannot
    be reached; each method documents its answer in that case. Threads may share a coordinator; a forked process makes
    its own.
    """

    @abstractmethod
    def report_active(self, store: StateStoreId, others: Collection[StateStoreId]) -> Collection[StateStoreId]:
        """Report that this executor has loaded a store, whichever executor had it before (``reportActiveInstance``).

        Returns those of ``others``, further stores that this executor has loaded, that another executor has loaded
        since; none if the coordinator cannot be reached.
        """

    @abstractmethod
    def verify_active(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        """Return those of the stores that still belong to this executor (``verifyIfInstanceActive``); all of them if
        the coordinator cannot be reached. If the coordinator has forgotten a store, and no other executor has reported
        it, the store belongs to this executor again.
        """

    @abstractmethod
    def locations(self, stores: Collection[StateStoreId]) -> Mapping[StateStoreId, ExecutorLocation]:
        """Return the executors that have loaded these stores (``getLocation``).

        A store that no executor has loaded is left out. The result is empty if the coordinator cannot be reached.
        """

    @abstractmethod
    def snapshot_made(self, store: StateStoreId, version: int) -> None:
        """Report that a snapshot of this version of a store exists (``snapshotUploaded``)."""

    @abstractmethod
    def deactivate(self, stores: Collection[StateStoreId]) -> None:
        """Report that this executor no longer has these stores loaded. Stores that another executor has loaded since
        stay with that executor.
        """

    def preferred_executors(
        self, operator: int, partitions: Iterable[int], name: str = "default"
    ) -> dict[int, ExecutorLocation]:
        """Return, by partition, the executor that has an operator's store loaded (``StateStoreRDD``'s preferred
        locations). Partitions that no executor has loaded are left out.
        """
        stores = [StateStoreId(operator, partition, name) for partition in partitions]
        return {store.partition: location for store, location in self.locations(stores).items()}


def this_executor() -> ExecutorLocation:
    """Return a location for this process, with an id that no other process has or will have.

    Each Python worker process counts as an executor, since it holds its loaded stores in its own memory.
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

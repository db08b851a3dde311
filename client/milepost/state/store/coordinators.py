"""Coordinators, which record which executor has loaded which state store. This module has the contract of a
coordinator, and a coordinator for executors that run in one process.
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
    """Records which executor has loaded which state store of one run of a query (Spark's ``StateStoreCoordinatorRef``).
    Each executor has such an object, through which it reports and asks.

    The answers are hints, on which correctness does not depend. So no method raises an error if the coordinator cannot
    be reached; each method documents its answer in that case. Threads may share a coordinator; a forked process makes
    its own.
    """

    @abstractmethod
    def report_active(self, store: StateStoreId, others: Collection[StateStoreId]) -> Collection[StateStoreId]:
        """Report that this executor has loaded a state store, whichever executor had it before (Spark's
        ``reportActiveInstance``).

        ``others`` has further stores that this executor has loaded. Returns those of them that another executor has
        loaded since; none if the coordinator cannot be reached.
        """

    @abstractmethod
    def verify_active(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        """Return those of the state stores that still belong to this executor (Spark's ``verifyIfInstanceActive``); all
        of them if the coordinator cannot be reached. A store that the coordinator has forgotten belongs to this
        executor again, unless another executor has reported it.
        """

    @abstractmethod
    def locations(self, stores: Collection[StateStoreId]) -> Mapping[StateStoreId, ExecutorLocation]:
        """Return the executor that has loaded each of these state stores (Spark's ``getLocation``).

        A store that no executor has loaded is left out. The result is empty if the coordinator cannot be reached.
        """

    @abstractmethod
    def snapshot_made(self, store: StateStoreId, version: int) -> None:
        """Report that a snapshot of this version of a state store exists (Spark's ``snapshotUploaded``)."""

    @abstractmethod
    def deactivate(self, stores: Collection[StateStoreId]) -> None:
        """Report that this executor no longer has these state stores loaded. Stores that another executor has loaded
        since stay recorded for that executor.
        """

    def preferred_executors(
        self, operator: int, partitions: Iterable[int], name: str = "default"
    ) -> dict[int, ExecutorLocation]:
        """Return, for each partition, the executor that has loaded the partition's state store of the operator
        ``operator`` with the name ``name`` (the preferred locations of Spark's ``StateStoreRDD``). Partitions whose
        store no executor has loaded are left out.
        """
        stores = [StateStoreId(operator, partition, name) for partition in partitions]
        return {store.partition: location for store, location in self.locations(stores).items()}


def this_executor() -> ExecutorLocation:
    """Return a location for this process, with an id that no other process has or will have.

    Each Python worker process counts as an executor, since it holds its loaded state stores in its own memory.
    """
    host = os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.gethostname()
    executor = os.environ.get("SPARK_EXECUTOR_ID", "python")
    return ExecutorLocation(host, f"{executor}-{os.getpid()}-{secrets.token_hex(4)}")


class InProcessRecord:
    """Records which executor has which state store loaded, for executors that all run in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.locations: dict[StateStoreId, ExecutorLocation] = {}
        self.snapshots: dict[StateStoreId, int] = {}

    def coordinator(self, location: ExecutorLocation) -> StateStoreCoordinator:
        """Return the coordinator through which the executor at ``location`` reports to this record and asks it."""
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

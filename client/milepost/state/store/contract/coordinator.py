"""The contract of a coordinator, which knows which executor has which store loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping

from milepost.state.store.contract.values import ExecutorLocation, StateStoreId


class StateStoreCoordinator(ABC):
    """The reports and questions of one executor about the loaded stores of one run of a query
    (``StateStoreCoordinatorRef``).

    The coordinator gives hints, on which nothing relies: no method raises an error if the coordinator cannot be
    reached, and each documents its answer in that case. Threads may share a coordinator; a forked process makes its
    own.
    """

    @abstractmethod
    def report_active(self, store: StateStoreId, others: Collection[StateStoreId]) -> Collection[StateStoreId]:
        """Report that this executor has loaded a store, whichever executor had it before (``reportActiveInstance``).

        Returns those of its ``others`` that belong to another executor by now; none if the coordinator cannot be
        reached.
        """

    @abstractmethod
    def verify_active(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        """Return those of the stores that still belong to this executor (``verifyIfInstanceActive``); all of them if
        the coordinator cannot be reached. A store that the coordinator has forgotten, and that no executor took over,
        belongs to this one again.
        """

    @abstractmethod
    def locations(self, stores: Collection[StateStoreId]) -> Mapping[StateStoreId, ExecutorLocation]:
        """Return the executors that have loaded these stores (``getLocation``).

        A store that no executor has loaded is left out; all are if the coordinator cannot be reached.
        """

    @abstractmethod
    def snapshot_made(self, store: StateStoreId, version: int) -> None:
        """Report that a snapshot of this version of a store exists (``snapshotUploaded``)."""

    @abstractmethod
    def deactivate(self, stores: Collection[StateStoreId]) -> None:
        """Report that this executor no longer has these stores loaded. A store of another executor stays that
        executor's.
        """

    def preferred_executors(
        self, operator: int, partitions: Iterable[int], name: str = "default"
    ) -> dict[int, ExecutorLocation]:
        """Return, by partition, the executor that has an operator's store loaded (``StateStoreRDD``'s preferred
        locations). Partitions that no executor has loaded are left out.
        """
        stores = [StateStoreId(operator, partition, name) for partition in partitions]
        return {store.partition: location for store, location in self.locations(stores).items()}

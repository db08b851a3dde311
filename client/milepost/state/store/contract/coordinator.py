"""The contract of a coordinator, which knows which executor has which store loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping

from milepost.state.store.contract.values import ExecutorLocation, StateStoreId


class StateStoreCoordinator(ABC):
    """What one executor says and asks of the loaded stores of one run of a query (``StateStoreCoordinatorRef``).

    It is a hint, on which nothing relies: no method raises an error because nobody can be asked, and each says what it
    answers then. Threads may share a coordinator; a forked process makes one of its own.
    """

    @abstractmethod
    def report_active(self, store: StateStoreId, others: Collection[StateStoreId]) -> Collection[StateStoreId]:
        """Say that this executor has a store loaded, whoever had it before (``reportActiveInstance``).

        Returns which of the ``others`` that it has loaded are another executor's by now; none if nobody can be asked.
        """

    @abstractmethod
    def verify_active(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        """Return which of these stores are still this executor's (``verifyIfInstanceActive``); all of them if nobody
        can be asked. What was not taken from it, but is forgotten, is its own again.
        """

    @abstractmethod
    def locations(self, stores: Collection[StateStoreId]) -> Mapping[StateStoreId, ExecutorLocation]:
        """Return where these stores are loaded (``getLocation``).

        What nobody has is left out, and everything is if nobody can be asked.
        """

    @abstractmethod
    def snapshot_made(self, store: StateStoreId, version: int) -> None:
        """Say that there is a snapshot of this version of a store (``snapshotUploaded``)."""

    @abstractmethod
    def deactivate(self, stores: Collection[StateStoreId]) -> None:
        """Say that this executor does not have these stores loaded any more. What is another's stays so."""

    def preferred_executors(
        self, operator: int, partitions: Iterable[int], name: str = "default"
    ) -> dict[int, ExecutorLocation]:
        """Return, by partition, the executor that has an operator's store loaded (``StateStoreRDD``'s preferred
        locations). Partitions that nobody has are left out.
        """
        stores = [StateStoreId(operator, partition, name) for partition in partitions]
        return {store.partition: location for store, location in self.locations(stores).items()}

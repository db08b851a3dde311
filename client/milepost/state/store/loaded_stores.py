"""Keeps track of the state stores that this process has loaded, and unloads those that another executor has loaded
since.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection
from typing import Protocol

from milepost.state.store.contract.values import StateStoreId
from milepost.state.store.coordinators import StateStoreCoordinator

_MOST_OTHERS = 100
"""The most further stores whose owner is asked together with a report, so that the request stays small. `are_ours` asks
about all stores.
"""


class Unloading(Protocol):
    """The methods of a provider that `LoadedStores` needs."""

    @property
    def state_store_id(self) -> StateStoreId:
        """The id of the provider's state store."""

    def unload(self) -> None:
        """Unload all loaded versions of the state store that are not open."""


class LoadedStores:
    """The providers of this process that have loaded a version of their state store. Each of these stores is reported
    to the ``coordinator``.

    Make one such object in each process, for all providers of a run of a query. Like Spark's ``StateStore`` object, it
    reports each opened store, and unloads a store that another executor has loaded since. It learns of such a store
    from the answer to a report, or from the check before maintenance.
    """

    def __init__(
        self,
        coordinator: StateStoreCoordinator,
        *,
        verified_for: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an empty registry. Asking the ``coordinator`` which state stores still belong to this process covers all
        of them, and the answer is used for ``verified_for`` seconds.
        """
        self._coordinator = coordinator
        self._verified_for = verified_for
        self._clock = clock
        self._lock = threading.Lock()
        self._verifying = threading.Lock()
        self._verified_at: float | None = None
        self._providers: weakref.WeakSet[Unloading] = weakref.WeakSet()
        self._times_opened: dict[StateStoreId, int] = {}

    @property
    def stores(self) -> list[StateStoreId]:
        """The state stores of which this process has loaded a version."""
        with self._lock:
            return list({provider.state_store_id: None for provider in self._providers})

    def opened(self, provider: Unloading) -> None:
        """Report to the coordinator that a provider has opened its state store. Then unload the stores that, by its
        answer, another executor has loaded since.
        """
        store = provider.state_store_id
        with self._lock:
            self._providers.add(provider)
            self._times_opened[store] = self._times_opened.get(store, 0) + 1
        self._ask_and_unload(
            [other for other in self.stores if other != store][:_MOST_OTHERS],
            lambda others: self._coordinator.report_active(store, others),
        )

    def are_ours(self, provider: Unloading) -> bool:
        """Return whether a provider's state store is loaded, and no other executor has loaded it since. Unload all
        stores that another executor has loaded.
        """
        with self._verifying:
            at = self._verified_at
            if at is None or self._clock() - at >= self._verified_for:
                self._ask_and_unload(self.stores, self._lost)
                self._verified_at = self._clock()
        with self._lock:
            return provider in self._providers

    def snapshot_made(self, provider: Unloading, version: int) -> None:
        """Report to the coordinator that a snapshot of this version of a provider's state store exists."""
        self._coordinator.snapshot_made(provider.state_store_id, version)

    def closed(self, provider: Unloading) -> None:
        """Report to the coordinator that a provider was closed, so that it has no loaded version any more."""
        store = provider.state_store_id
        with self._lock:
            was_loaded = provider in self._providers
            self._providers.discard(provider)
            last = all(other.state_store_id != store for other in self._providers)
            if last:
                self._times_opened.pop(store, None)
        if was_loaded and last:
            self._coordinator.deactivate([store])

    def _lost(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        active = set(self._coordinator.verify_active(stores)) if stores else set()
        return [store for store in stores if store not in active]

    def _ask_and_unload(
        self, stores: Collection[StateStoreId], ask: Callable[[Collection[StateStoreId]], Collection[StateStoreId]]
    ) -> None:
        """Unload those of the state stores that another executor has loaded, as ``ask`` says: it takes the stores, and
        returns the ones to unload. A store that this process opens during the call of ``ask`` stays loaded.
        """
        with self._lock:
            before = {store: self._times_opened.get(store) for store in stores}
        lost = set(ask(stores))
        with self._lock:
            lost = {store for store in lost if self._times_opened.get(store) == before.get(store)}
            going = [provider for provider in self._providers if provider.state_store_id in lost]
            for provider in going:
                self._providers.discard(provider)
        for provider in going:
            provider.unload()

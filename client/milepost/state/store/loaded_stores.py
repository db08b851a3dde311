"""The stores of a run that this process has loaded; those that another executor loads are unloaded."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection
from typing import Protocol

from milepost.state.store.contract.values import StateStoreId
from milepost.state.store.coordinators import StateStoreCoordinator

_MOST_OTHERS = 100
"""The most other stores that one report asks about, so that it is one request. Verification asks about all stores."""


class Unloading(Protocol):
    """A provider that can unload its store."""

    @property
    def state_store_id(self) -> StateStoreId:
        """The id of the provider's store."""

    def unload(self) -> None:
        """Unload the versions that no store has open."""


class LoadedStores:
    """The providers of this process that have loaded something, as reported to its ``coordinator``.

    Make one in each process, for all providers of a run. It does the work of Spark's ``StateStore`` object beyond its
    ``loadedProviders``: it reports each opened store, and unloads a store that another executor has loaded since, at
    once if the answer to a report says so, else before maintenance.
    """

    def __init__(
        self,
        coordinator: StateStoreCoordinator,
        *,
        verified_for: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an empty registry. It verifies all stores together, and again once ``verified_for`` seconds have
        passed.
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
        """The stores that this process has loaded, as far as it knows."""
        with self._lock:
            return list({provider.state_store_id: None for provider in self._providers})

    def opened(self, provider: Unloading) -> None:
        """Report that a provider has opened its store, and unload stores that the answer shows to be another
        executor's.
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
        """Return whether a provider's store is loaded and still this executor's; unload all stores that are not."""
        with self._verifying:
            at = self._verified_at
            if at is None or self._clock() - at >= self._verified_for:
                self._ask_and_unload(self.stores, self._lost)
                self._verified_at = self._clock()
        with self._lock:
            return provider in self._providers

    def snapshot_made(self, provider: Unloading, version: int) -> None:
        """Report that a snapshot of this version of a provider's store exists."""
        self._coordinator.snapshot_made(provider.state_store_id, version)

    def closed(self, provider: Unloading) -> None:
        """Report that a provider has nothing loaded any more, because it was closed."""
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
        """Unload those of the stores that ``ask`` reports as another executor's, except stores that were opened since
        the question.
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

"""What a process has loaded of a run's stores, and what it unloads because another executor has it now."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection
from typing import Protocol

from milepost.state.store.contract.coordinator import StateStoreCoordinator
from milepost.state.store.contract.values import StateStoreId

_MOST_OTHERS = 100
"""Of how many other stores a report asks, so that it is one request. Verification asks of all."""


class Unloading(Protocol):
    """A provider that can let go of what it has loaded."""

    @property
    def state_store_id(self) -> StateStoreId:
        """Which store it is of."""

    def unload(self) -> None:
        """Let go of what nobody has open."""


class LoadedStores:
    """The providers of this process that have something loaded, as its ``coordinator`` is told of them.

    Make one in each process, for all providers of a run. It does what Spark's ``StateStore`` object does beside its
    ``loadedProviders``: an opened store is reported, and what another executor has by now is unloaded, at once where
    the answer to a report says so, else before maintenance.
    """

    def __init__(
        self,
        coordinator: StateStoreCoordinator,
        *,
        verified_for: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """All stores are verified together, and again once ``verified_for`` seconds have passed."""
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
        """Which stores this process has loaded, as far as it knows."""
        with self._lock:
            return list({provider.state_store_id: None for provider in self._providers})

    def opened(self, provider: Unloading) -> None:
        """Report that a provider has opened its store, and unload what turns out to be another executor's."""
        store = provider.state_store_id
        with self._lock:
            self._providers.add(provider)
            self._times_opened[store] = self._times_opened.get(store, 0) + 1
        self._ask_and_unload(
            [other for other in self.stores if other != store][:_MOST_OTHERS],
            lambda others: self._coordinator.report_active(store, others),
        )

    def are_ours(self, provider: Unloading) -> bool:
        """Return whether a provider's store is loaded, and still this executor's; unload all that are not."""
        with self._verifying:
            at = self._verified_at
            if at is None or self._clock() - at >= self._verified_for:
                self._ask_and_unload(self.stores, self._lost)
                self._verified_at = self._clock()
        with self._lock:
            return provider in self._providers

    def snapshot_made(self, provider: Unloading, version: int) -> None:
        """Tell that there is a snapshot of this version of a provider's store."""
        self._coordinator.snapshot_made(provider.state_store_id, version)

    def closed(self, provider: Unloading) -> None:
        """Tell that a provider has nothing loaded any more, because it was closed."""
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
        """Unload those of the stores that ``ask`` says are another's, but for what was opened since it was asked."""
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

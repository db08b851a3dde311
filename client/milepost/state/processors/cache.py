"""Keeps the state stores that a worker process has loaded, from batch to batch and within a memory limit."""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import threading
from collections import OrderedDict
from dataclasses import dataclass

from milepost.state.errors import InvalidUse, StateError
from milepost.state.store.contract.values import StateStoreId
from milepost.state.store.engines.engine import EngineFactory, MemoryEngine
from milepost.state.store.files.contract import StateFiles
from milepost.state.store.provider import FileStateStoreProvider
from milepost.state.store.settings import ProviderSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loading:
    """How the Python worker processes of an executor load state stores. Each task takes this object with it to its
    worker process.

    ``files`` is the storage of the state. ``memory_bytes`` limits the memory of the state stores that one worker
    process keeps loaded; the store in use stays loaded in any case. ``directory`` is a directory on the local disk of
    the executors, where RocksDB keeps the stores and uses this memory; None keeps the stores in memory. ``keep`` is the
    number of published snapshots to keep. Raises `InvalidUse` if ``keep`` is below 1.
    """

    files: StateFiles
    memory_bytes: int
    directory: str | None = None
    keep: int = 100

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise InvalidUse(f"one snapshot at least is kept, not {self.keep}")


class StoreCache:
    """The providers of the state stores that a worker process has loaded, in the order of their last use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._known: dict[str, Loading] = {}
        self._engines: dict[str, EngineFactory] = {}
        self._providers: OrderedDict[tuple[str, StateStoreId], FileStateStoreProvider] = OrderedDict()
        self._memory: dict[tuple[str, StateStoreId], int] = {}

    def files(self, pickled: bytes) -> StateFiles:
        """Return the storage of the state that ``pickled``, a pickled `Loading`, names: the same object for all tasks
        of the process.
        """
        with self._lock:
            return self._loading(pickled)[1].files

    def provider(self, pickled: bytes, store: StateStoreId) -> FileStateStoreProvider:
        """Return the provider of a state store, and note that it is the one used last. ``pickled`` is a pickled
        `Loading`.
        """
        with self._lock:
            which, loading = self._loading(pickled)
            found = self._providers.pop((which, store), None)
            if found is None:
                settings = ProviderSettings(
                    engines=self._engines[which],
                    versions_to_keep=loading.keep + 1,  # one more, because this task's commit may never be published
                    maintenance_interval=None,
                    idle_engines=1,
                )
                found = FileStateStoreProvider(loading.files, settings)
                found.init(store)
            self._providers[which, store] = found
            return found

    def _loading(self, pickled: bytes) -> tuple[str, Loading]:
        if self._process != os.getpid():  # after a fork, the open stores belong to the parent process
            self._known, self._engines, self._memory = {}, {}, {}
            self._providers, self._process = OrderedDict(), os.getpid()
        which = hashlib.sha256(pickled).hexdigest()
        loading = self._known.get(which)
        if loading is None:
            loading = self._known[which] = pickle.loads(pickled)
            self._engines[which] = _engines(loading)
        return which, loading

    def used(self, pickled: bytes, store: StateStoreId, memory_bytes: int) -> None:
        """Note how much memory a loaded state store uses. If the stores in memory together use more than the `Loading`
        allows, close the least recently used ones. RocksDB limits its memory by itself. ``pickled`` is a pickled
        `Loading`.
        """
        with self._lock:
            which = hashlib.sha256(pickled).hexdigest()
            self._memory[which, store] = memory_bytes
            most = self._known[which].memory_bytes
            if self._known[which].directory is not None:
                return
            while sum(self._memory.values()) > most and len(self._providers) > 1:
                oldest, provider = self._providers.popitem(last=False)
                self._memory.pop(oldest, None)
                provider.close()

    def close_other_layouts(self, pickled: bytes, store: StateStoreId) -> None:
        """Close the loaded state stores of a state that belong to other layouts (divisions of the state into
        partitions) than ``store``. The stores of the current layout have all keys, so no batch continues from the
        others.
        """
        which, state = hashlib.sha256(pickled).hexdigest(), store.name.rpartition(".")[0]
        with self._lock:
            for loading, other in list(self._providers):
                if loading == which and other.name != store.name and other.name.rpartition(".")[0] == state:
                    self._memory.pop((loading, other), None)
                    self._providers.pop((loading, other)).close()

    def maintain(self, provider: FileStateStoreProvider, *, in_background: bool = True) -> None:
        """Make a snapshot of a state store and delete its old files: in a background thread, or before this call
        returns if the process ends after the task.
        """
        if not in_background:
            _maintain(provider)
            return
        threading.Thread(target=_maintain, args=(provider,), name="milepost-state-maintenance", daemon=True).start()


def _engines(loading: Loading) -> EngineFactory:
    if loading.directory is None:
        return MemoryEngine
    from milepost.state.store.engines.rocksdb import RocksDBEngines

    return RocksDBEngines(loading.directory, memory_bytes=loading.memory_bytes)


def _maintain(provider: FileStateStoreProvider) -> None:
    try:
        provider.do_maintenance()
    except StateError as error:
        _log.warning("maintenance of %s failed, and will be tried again: %s", provider.state_store_id.directory, error)


STORES = StoreCache()

"""Versioned state stores of keys and values, with the contract of Spark's state stores.

`FileStateStoreProvider` stores each version as files, in one of three kinds of `StateFiles`: `LocalFiles` is a local
directory, `TreeFiles` a directory in the tree of a job, fenced by its driver's epoch, and `MemoryFiles` is for tests.
An engine holds an open version: in memory (`MemoryEngine`) or in RocksDB
(`milepost.state.store.engines.rocksdb.RocksDBEngines`).

`LoadedStores` reports to a `StateStoreCoordinator` which state stores this process has loaded, and unloads those that
another executor has loaded since.
"""

from milepost.state.store.contract.stores import ReadStateStore, StateStore, StateStoreProvider
from milepost.state.store.contract.values import (
    DEFAULT_FAMILY,
    Change,
    ChangeKind,
    CheckpointInfo,
    ExecutorLocation,
    StateStoreId,
    StateStoreMetrics,
)
from milepost.state.store.coordinators import InProcessRecord, StateStoreCoordinator, this_executor
from milepost.state.store.engines.engine import MemoryEngine
from milepost.state.store.files.contract import Created, FileInfo, StateFiles
from milepost.state.store.files.local import LocalFiles, MemoryFiles
from milepost.state.store.files.tree import TreeFiles
from milepost.state.store.loaded_stores import LoadedStores
from milepost.state.store.provider import FileStateStoreProvider
from milepost.state.store.ranges import RangeReader
from milepost.state.store.settings import ProviderSettings

__all__ = [
    "StateStoreId",
    "ReadStateStore",
    "StateStore",
    "StateStoreProvider",
    "FileStateStoreProvider",
    "RangeReader",
    "ProviderSettings",
    "MemoryEngine",
    "StateFiles",
    "Created",
    "FileInfo",
    "LocalFiles",
    "MemoryFiles",
    "TreeFiles",
    "Change",
    "ChangeKind",
    "StateStoreCoordinator",
    "ExecutorLocation",
    "InProcessRecord",
    "LoadedStores",
    "this_executor",
    "CheckpointInfo",
    "StateStoreMetrics",
    "DEFAULT_FAMILY",
]

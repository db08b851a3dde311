"""Providers of one store, in memory and in RocksDB, and what tests do with them again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost.state.store import FileStateStoreProvider, MemoryEngine, MemoryFiles, ProviderSettings, StateStoreId
from milepost.state.store.engines.engine import EngineFactory
from milepost.state.store.engines.rocksdb import RocksDBEngines
from tests.client.state.support.failing_files import FailingFiles

Opener = Callable[..., FileStateStoreProvider]


@pytest.fixture
def files() -> FailingFiles:
    """A place for files, in memory."""
    return FailingFiles(MemoryFiles())


@pytest.fixture(params=["heap", "rocksdb"])
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> EngineFactory:
    """What holds an open version."""
    return MemoryEngine if request.param == "heap" else RocksDBEngines(tmp_path / "cache", memory_bytes=1 << 23)


@pytest.fixture
def opened(files: FailingFiles) -> Iterator[Opener]:
    """Opens a provider of the store 0/0, without a thread for maintenance, that merges at each snapshot, if not told
    otherwise.
    """
    providers = []

    def open_one(*, multiple: bool = False, **settings: object) -> FileStateStoreProvider:
        chosen: dict[str, Any] = {"maintenance_interval": None, **settings}
        chosen.setdefault("merge_after", chosen.get("min_deltas_for_snapshot", 10))
        provider = FileStateStoreProvider(files, ProviderSettings(**chosen))
        provider.init(StateStoreId(0, 0), multiple_values_per_key=multiple)
        providers.append(provider)
        return provider

    yield open_one
    for provider in providers:
        provider.close()


def commit(provider: FileStateStoreProvider, version: int, id: str | None = None, **pairs: str) -> str:
    """Put text under keys, commit what comes after this version, and return the commit's id."""
    store = provider.get_store(version, id)
    for key, value in pairs.items():
        store.put(key.encode(), value.encode())
    store.commit()
    return store.checkpoint_info.id


def content(provider: FileStateStoreProvider, version: int, id: str | None = None) -> dict[str, str]:
    """Return what the default family of a version holds."""
    store = provider.get_read_store(version, id)
    found = {key.decode(): value.decode() for key, value in store.iterator()}
    store.release()
    return found

"""Tables of each kind: in memory alone, and stores whose engine is in memory or in RocksDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from milepost.state.coders import Utf8Coder
from milepost.state.dialects.beam import (
    HeapTable,
    IntervalWindow,
    IntervalWindowCoder,
    StateInternals,
    StateInternalsFactory,
    StateNamespaces,
    StateTable,
)
from milepost.state.store import MemoryEngine
from milepost.state.store.engines.rocksdb import RocksDBEngines
from tests.client.state.conftest import Opener

WINDOWS = IntervalWindowCoder()


def at(seconds: float) -> datetime:
    """Return a point in time, in seconds since 1970."""
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)


def window(start: float, end: float) -> IntervalWindow:
    """Return a window of these seconds."""
    return IntervalWindow(at(start), at(end))


NAMESPACE_1, NAMESPACE_2, NAMESPACE_3 = (
    StateNamespaces.window(WINDOWS, window(start, start + 10)) for start in (0, 10, 20)
)


@pytest.fixture(params=["heap", "store over heap", "store over RocksDB"])
def table(request: pytest.FixtureRequest, opened: Opener, tmp_path: Path) -> Iterator[StateTable]:
    """Return an empty table."""
    if request.param == "heap":
        yield HeapTable()
        return
    engines = (
        MemoryEngine if request.param == "store over heap" else RocksDBEngines(tmp_path / "cache", memory_bytes=1 << 23)
    )
    store = opened(engines=engines).get_store(0)
    yield store
    store.abort()


@pytest.fixture
def states(table: StateTable) -> StateInternalsFactory[str]:
    """Return the state of all keys."""
    return StateInternalsFactory(table, Utf8Coder())


@pytest.fixture
def internals(states: StateInternalsFactory[str]) -> StateInternals[str]:
    """Return the state of one key."""
    return states.state_internals_for_key("key")

"""A directory for each test, and a store in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from milepost_backends.local.blobs import LocalBlobs


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


@pytest.fixture
async def store(place: Path) -> AsyncIterator[LocalBlobs]:
    store = LocalBlobs(place)
    await store.open()
    yield store
    await store.close()

"""One embedded pointer store and the file that it works on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from milepost_backends.embedded.pointers import FILE_NAME, EmbeddedPointers


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedPointers]:
    store = EmbeddedPointers(tmp_path, busy_timeout=0.2)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def file(store: EmbeddedPointers, tmp_path: Path) -> Path:
    del store
    return tmp_path / FILE_NAME

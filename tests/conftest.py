"""For every test: coroutines run on asyncio (``pytestmark = pytest.mark.anyio`` in a module of them)."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The event loop under the tests; the service knows no other."""
    return "asyncio"

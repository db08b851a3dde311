"""For every test: coroutines run on asyncio (``pytestmark = pytest.mark.anyio`` in a module of them)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.contracts.places import Services


@pytest.fixture
def anyio_backend() -> str:
    """The event loop under the tests; the service knows no other."""
    return "asyncio"


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """The real services that tests share through the session; each is started when it is first asked for."""
    with ExitStack() as ends:
        yield Services(ends, tmp_path_factory.mktemp("services"))

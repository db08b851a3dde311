"""Real parts for the Spark tests: one service, and Java options with which Spark starts quickly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark import java
from tests.support.server import ServerProcess


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The service, embedded, for all tests; each takes a store of its own."""
    with ServerProcess(tmp_path_factory.mktemp("service")) as server:
        server.start()
        yield server


@pytest.fixture(scope="session")
def java_options() -> str:
    """Options for the JVMs of the drivers."""
    return java.options(Path(__file__).parents[2] / ".cache")

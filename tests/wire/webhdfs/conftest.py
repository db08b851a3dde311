"""A server as it is by default, so that small files are kept in their records and large ones are blobs."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import connect


@pytest.fixture(scope="session")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("files")) as process:
        yield process.start()


@pytest.fixture(scope="session")
def http(by_default: ServerProcess) -> Iterator[httpx.Client]:
    """A client of that server."""
    with connect(by_default.url) as client:
        yield client

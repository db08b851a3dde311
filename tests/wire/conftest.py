"""One server for all tests that leave it as it is; each test gets a store of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.wire.support.api import Api, connect, unique


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A replica that leads, embedded pointers and local blobs. All states are blobs, however small."""
    with ServerProcess(tmp_path_factory.mktemp("wire"), *ALL_AS_BLOBS) as process:
        yield process.start()


@pytest.fixture(scope="session")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server as it is by default, so that small files are kept in their records and large ones are blobs."""
    with ServerProcess(tmp_path_factory.mktemp("files")) as process:
        yield process.start()


@pytest.fixture(scope="session")
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    """A client of that server."""
    with connect(server.url) as client:
        yield client


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    """The name of a store that only this test uses."""
    return unique(re.sub(r"[^A-Za-z0-9_-]", "-", request.node.name)[:100])


@pytest.fixture
def api(http: httpx.Client, store: str) -> Api:
    """A new session on that store."""
    return Api.on(http, store)

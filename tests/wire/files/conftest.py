"""Files are kept as a server does it by default."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import connect


@pytest.fixture(scope="session")
def http(by_default: ServerProcess) -> Iterator[httpx.Client]:
    """A client of that server."""
    with connect(by_default.url) as client:
        yield client

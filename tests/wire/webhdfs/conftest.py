"""Files are kept as a server does it by default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from itertools import count

import httpx
import pytest

from milepost_server.http.access.rights import Patterns, Rights
from milepost_server.http.access.tokens import Principal
from testbed.server import ServerProcess
from tests.wire.support.api import connect
from tests.wire.webhdfs.twins import READER, STRANGER, Changing, Clients, served


@pytest.fixture(scope="session")
def http(by_default: ServerProcess) -> Iterator[httpx.Client]:
    """A client of that server."""
    with connect(by_default.url) as client:
        yield client


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """A server without tokens, with the tree of a job."""
    with ExitStack() as stack:
        yield served(tmp_path_factory.mktemp("looks"), None, {}, stack)


@pytest.fixture(scope="module")
def changing() -> Changing:
    """A driver of all jobs, a client that may read the job, and one that may read another job."""
    listed = [
        Principal("driver", Rights(writer=Patterns(("*",))), sha256(b"token-of-the-driver-of-all").digest()),
        Principal("reader", Rights(reader=Patterns(("fl*",))), sha256(READER.encode()).digest()),
        Principal("stranger", Rights(reader=Patterns(("trains",))), sha256(STRANGER.encode()).digest()),
    ]
    return Changing(listed)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, changing: Changing) -> Iterator[Clients]:
    """The same server with tokens."""
    with ExitStack() as stack:
        headers = {"Authorization": "Bearer token-of-the-driver-of-all"}
        yield served(tmp_path_factory.mktemp("guarded"), changing, headers, stack)


@pytest.fixture
def names() -> Iterator[str]:
    """Names of files that no test had before, all of one length."""
    return (f"w{next(_numbers):05}" for _ in count())


_numbers = count()

"""A server that speaks TLS, in the place of the one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.support.servers.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextmanager
def leading(certificates: Certificates, directory: Path, *flags: str) -> Iterator[ServerProcess]:
    """A replica that leads and speaks TLS, as the flags of ``certificates`` tell it."""
    with ServerProcess(directory, *flags, tls=certificates.trusting()) as process:
        yield process.start()


@pytest.fixture(scope="module")
def server(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A replica that leads, over TLS."""
    with leading(certificates, tmp_path_factory.mktemp("tls"), *ALL_AS_BLOBS, *certificates.flags) as process:
        yield process


@pytest.fixture(scope="module")
def http(server: ServerProcess, certificates: Certificates) -> Iterator[httpx.Client]:
    """A client of that server, which trusts its authority."""
    with httpx.Client(base_url=server.url, trust_env=False, verify=certificates.trusting(), timeout=30.0) as client:
        yield client

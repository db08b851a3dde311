"""The real service, started once for the SDK's tests, and clients of both flavours."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

import milepost
from testbed.ports import Port
from tests.client.flavours import connected
from tests.support.network.gateway import Gateway, gateway

ROOT = Path(__file__).parents[2]
START_SECONDS = 240.0


@dataclass
class Service:
    """A running server of its own data directory."""

    url: str
    data: Path
    process: subprocess.Popen[bytes]

    def blob(self, content: bytes) -> Path:
        """The one file in which it keeps these bytes. Files of other tests may go meanwhile."""
        found = []
        for directory, _, names in os.walk(self.data / "blobs"):
            for path in (Path(directory, name) for name in names):
                with suppress(FileNotFoundError):
                    if path.read_bytes() == content:
                        found.append(path)
        (only,) = found
        return only


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds; fails the test after a minute."""
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


@contextmanager
def serving(data: Path, *flags: str, port: Port | None = None, ready: str = "/leader") -> Iterator[Service]:
    """A server, on a free port if none is given, ended with the block; begun once it answers at ``ready``.

    The SDK's oldest Python cannot run it, hence the variable that names another.
    """
    port = port or Port()
    url = f"http://{port.address}"
    command = [os.environ.get("MILEPOST_SERVER_PYTHON", sys.executable), "-m", "milepost_server"]
    command += ["--listen", port.address, "--advertise", url, "--log-level", "warning", "--inline-below", "0"]
    command += ["--pointers", f"embedded:{data / 'pointers'}", "--blobs", f"file:{data / 'blobs'}", *flags]
    with (data / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        _wait_until(url + ready, process, data / "log")
        yield Service(url, data, process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _wait_until(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"the server did not come up:\n{log.read_text()}")


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One real service for all tests; each takes a store of its own."""
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@contextmanager
def cell(data: Path, name: str, names: str, port: Port | None = None) -> Iterator[Service]:
    """The server of one cell, which has the list of ``names``."""
    data.mkdir(exist_ok=True)
    with serving(data, "--cell", name, "--cells", names, port=port) as running:
        yield running


@pytest.fixture(scope="session")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Service]]:
    """Two cells, which tests share; each takes jobs of its own."""
    data = tmp_path_factory.mktemp("cells")
    with ExitStack() as running:
        yield {name: running.enter_context(cell(data / name, name, "a,b")) for name in ("a", "b")}


@pytest.fixture(params=["blocking", "asynchronous"])
def flavour(request: pytest.FixtureRequest) -> str:
    """Which of the two clients."""
    return str(request.param)


@pytest.fixture
def client(service: Service, flavour: str) -> Iterator[Any]:
    """A client of either flavour."""
    with connected(flavour, service.url, timeout=20.0) as either:
        yield either


@pytest.fixture
def blocking(service: Service) -> Iterator[milepost.Client]:
    """A blocking client."""
    with milepost.Client(service.url, timeout=20.0) as client:
        yield client


@pytest.fixture
def proxy(service: Service) -> Iterator[Gateway]:
    """A proxy before the service."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(gateway(service.url)) as made:
        yield made


@pytest.fixture
def name() -> str:
    """The name of a store that no other test uses."""
    return f"store-{uuid.uuid4().hex[:12]}"

"""The process: how it ends."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.server import ServerProcess


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of blobs on a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"s3://bucket?endpoint_url=http://127.0.0.1:{server.getsockname()[1]}"


def test_a_signal_ends_it_in_order_while_it_waits_for_its_storage(tmp_path: Path, silent: str) -> None:
    """As the first process of a container it would not be ended otherwise: for that one, no handler means no effect."""
    with ServerProcess(tmp_path, blobs=silent) as server:
        server.start(until=None)
        server.wait_for_log("listening on")
        wait_for_handler(server.pid, signal.SIGTERM)
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait() == 0
        assert "stopping on SIGTERM" in server.logged()
        assert "Traceback" not in server.logged()


def wait_for_handler(pid: int, number: int) -> None:
    """Wait until the process catches the signal, as proc(5) tells it."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        caught = next(
            line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:")
        )
        if int(caught.split()[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.02)
    raise AssertionError(f"it does not catch signal {number}")

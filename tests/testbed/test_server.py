"""A server of the tests tells how it is: whether it leads, what it logs and how much memory it takes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from testbed.server import ServerFailed, ServerProcess


def test_it_starts_leads_logs_and_stops(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        server.start()
        assert server.status_of("/leader") == 200
        assert f"listening on 127.0.0.1:{server.port}" in server.logged()
        assert 0 < server.memory("VmRSS") <= server.memory("VmHWM")
        assert server.stop() == 0
        assert server.status_of("/livez") is None


def test_a_start_that_fails_shows_the_log(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, pointers="nowhere:1") as server, pytest.raises(ServerFailed, match="nowhere"):
        server.start()


def test_after_its_end_nobody_else_gets_its_port(tmp_path: Path) -> None:
    """A client may still ask the server; a program that had got the port would read the client's request as its own."""
    with ServerProcess(tmp_path) as server:
        pass
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", server.port))

"""The processes that other tests lean on start, tell, restart and end as they say."""

from __future__ import annotations

import signal
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


def test_it_is_killed_and_starts_again_on_its_port_with_its_data(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        server.start()
        first = server.pid
        server.kill()
        assert server.wait() == -signal.SIGKILL
        server.start()
        assert server.pid != first
        assert server.logged().count("leading journal") == 1
        assert server.log_path.read_text().count("leading journal") == 2


def test_it_ends_with_its_block(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        server.start(until="/livez")
    assert not server.running


def test_a_start_that_fails_shows_the_log(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, pointers="nowhere:1") as server, pytest.raises(ServerFailed, match="nowhere"):
        server.start()


def test_two_share_their_data(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path) as leader,
        ServerProcess(tmp_path, pointers=leader.pointers, blobs=leader.blobs) as follower,
    ):
        leader.start()
        follower.start(until="/readyz")
        assert follower.status_of("/leader") == 503
        assert follower.port != leader.port

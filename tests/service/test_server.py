"""The process: how it ends."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from parts.server import ServerProcess

DEADLINE_SECONDS = 60.0


def test_a_signal_ends_it_in_order_while_it_waits_for_its_storage(tmp_path: Path) -> None:
    """As the first process of a container it would not be ended otherwise: for that one, no handler means no effect."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(DEADLINE_SECONDS)
        blobs = f"s3://bucket?endpoint_url=http://127.0.0.1:{silent.getsockname()[1]}"
        with ServerProcess(tmp_path, blobs=blobs) as server:
            server.start(until=None)
            asking, _ = silent.accept()
            with asking:
                os.kill(server.pid, signal.SIGTERM)
                assert server.wait() == 0
            assert "stopping on SIGTERM" in server.logged()
            assert "Traceback" not in server.logged()

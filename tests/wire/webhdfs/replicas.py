"""A leader and two followers on the same data, as processes."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from testbed.server import DEADLINE_SECONDS, ServerProcess


class Set:
    """A leader and two followers on the same data."""

    def __init__(self, directory: Path, running: ExitStack) -> None:
        directory.mkdir(exist_ok=True)
        first = running.enter_context(ServerProcess(directory)).start()
        self.replicas = [first]
        for number in (1, 2):
            (below := directory / f"follower-{number}").mkdir()
            other = ServerProcess(below, pointers=first.pointers, blobs=first.blobs)
            self.replicas.append(running.enter_context(other).start(until="/readyz"))
        self.blobs = directory / "blobs"

    def leader(self) -> ServerProcess:
        """Whoever leads; somebody must before long."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            for replica in self.replicas:
                if replica.running and replica.status_of("/leader") == 200:
                    return replica
            time.sleep(0.05)
        raise AssertionError("nobody leads")

    def followers(self) -> list[ServerProcess]:
        leader = self.leader()
        return [replica for replica in self.replicas if replica.running and replica is not leader]

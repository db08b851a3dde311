"""Milepost as it is run in earnest, for the length of a demo: three replicas over three ZooKeepers and S3."""

from __future__ import annotations

from pathlib import Path

from demo.processes import border
from testbed.replicated import ReplicatedTestbed
from testbed.server import ServerProcess

_DEADLINE_SECONDS = 240.0
"""Seconds are enough, but for a machine with much else to do."""


class ReplicatedService:
    """The whole set, with its data and logs under ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._deployment = ReplicatedTestbed(directory)
        self._killed: ServerProcess | None = None

    @property
    def urls(self) -> list[str]:
        """Of all three replicas."""
        return self._deployment.urls

    def wait_until_it_leads(self) -> None:
        """Start it; one replica leads afterwards. Raises `DemoFailed`."""
        with border():
            self._deployment.start(_DEADLINE_SECONDS)

    def kill_leader(self) -> str:
        """SIGKILL to the replica that leads; its URL. The one killed before is started again. Raises `DemoFailed`."""
        with border():
            leader = self._deployment.leader(_DEADLINE_SECONDS)
            leader.kill()
            if self._killed is not None:
                self._killed.start(until=None)
            self._killed = leader
        return leader.url

    def stop(self) -> None:
        """End every part of it. Idempotent."""
        self._deployment.end()

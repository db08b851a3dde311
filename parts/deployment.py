"""The whole set on one machine: replicas of Milepost over an ensemble of ZooKeepers and S3."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from parts.process import DEADLINE_SECONDS, Process, ProcessFailed
from parts.seaweedfs import ALL_RIGHTS, SeaweedFS
from parts.server import ServerProcess
from parts.zookeeper import Ensemble

BUCKET = "milepost"
SESSION_SECONDS = 4.0
"""How long ZooKeeper waits for a replica that is silent: Milepost's own default."""

TICK_SECONDS = 0.5
"""ZooKeeper ends sessions at the next full tick, so short ones keep a fail-over short."""


class Deployment:
    """``replicas`` servers, three ZooKeepers and one S3 server, with their files under ``directory``.

    ``flags`` are given to each replica. ``detached`` parts outlive the process that started them.
    """

    def __init__(
        self,
        directory: Path,
        *flags: str,
        replicas: int = 3,
        session_seconds: float = SESSION_SECONDS,
        tick_seconds: float = TICK_SECONDS,
        detached: bool = False,
    ) -> None:
        self.zookeepers = Ensemble(directory / "zookeeper", tick_seconds=tick_seconds, detached=detached)
        self.s3 = SeaweedFS(directory / "s3", detached=detached)
        self.pointers = f"zookeeper://{self.zookeepers.hosts}/milepost?session_timeout={session_seconds:g}"
        self.blobs = self.s3.url(BUCKET)
        self.replicas = [
            ServerProcess(
                directory / f"replica-{number}",
                *flags,
                pointers=self.pointers,
                blobs=self.blobs,
                environment=ALL_RIGHTS.environment,
                detached=detached,
            )
            for number in range(1, replicas + 1)
        ]

    @property
    def urls(self) -> list[str]:
        """Of all replicas, whether they run or not."""
        return [replica.url for replica in self.replicas]

    @property
    def processes(self) -> Sequence[Process]:
        """Every part, in the order in which they may be ended."""
        return [*self.replicas, self.s3.process, *self.zookeepers.members]

    def start(self, deadline: float = DEADLINE_SECONDS) -> Deployment:
        """Start everything and wait until one replica leads and the others know it. Raises `ProcessFailed`."""
        self.s3.start(deadline)
        self.s3.make_bucket(BUCKET)
        self.mend(deadline)
        return self

    def leader(self, deadline: float = DEADLINE_SECONDS) -> ServerProcess:
        """The replica that leads, once one does. Raises `ProcessFailed`."""
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            for replica in self.replicas:
                if replica.running and replica.status_of("/leader", timeout=1.0) == 200:
                    return replica
            time.sleep(0.02)
        raise ProcessFailed(f"no replica leads after {deadline:g} s")

    def mend(self, deadline: float = DEADLINE_SECONDS) -> None:
        """Start what does not run, wake what is paused, and wait until all know a leader. Raises `ProcessFailed`."""
        for process in self.processes:
            if process.running:
                process.resume()
        if not self.s3.process.running:
            self.s3.start(deadline)
        self.zookeepers.serve(deadline)
        for replica in self.replicas:
            if not replica.running:
                replica.start(until=None)
        for replica in self.replicas:
            replica.wait_for("/readyz", deadline=deadline)

    def end(self) -> None:
        """End everything, the replicas in order and the rest at once, and let go of the ports."""
        for replica in self.replicas:
            replica.end()
            replica.__exit__(None, None, None)
        self.s3.__exit__(None, None, None)
        self.zookeepers.kill()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

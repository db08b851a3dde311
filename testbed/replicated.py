"""Runs the whole set on one machine: replicas of Milepost over an ensemble of ZooKeepers and S3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from testbed.process import DEADLINE_SECONDS, Process
from testbed.replicas import Replicas
from testbed.seaweedfs import ALL_RIGHTS, SeaweedFS
from testbed.zookeeper import Ensemble

BUCKET = "milepost"
SESSION_SECONDS = 4.0
"""ZooKeeper ends the session of a replica that was silent for so long. This is also Milepost's default."""

TICK_SECONDS = 0.25
"""ZooKeeper ends sessions only at full ticks, so short ticks keep a fail-over short."""


class ReplicatedTestbed(Replicas):
    """``count`` servers, three ZooKeepers and one S3 server, with their files under ``directory``.

    ``before_s3`` starts what stands in front of the S3 server, whose URL it is given, and returns its own.
    """

    def __init__(
        self,
        directory: Path,
        *flags: str,
        count: int = 3,
        session_seconds: float = SESSION_SECONDS,
        tick_seconds: float = TICK_SECONDS,
        detached: bool = False,
        before_s3: Callable[[str], str] = str,
    ) -> None:
        self.zookeepers = Ensemble(directory / "zookeeper", tick_seconds=tick_seconds, detached=detached)
        self.s3 = SeaweedFS(directory / "s3", detached=detached)
        super().__init__(
            directory,
            *flags,
            pointers=f"zookeeper://{self.zookeepers.hosts}/milepost?session_timeout={session_seconds:g}",
            blobs=self.s3.url(BUCKET, endpoint_url=before_s3(self.s3.endpoint_url)),
            count=count,
            environment=ALL_RIGHTS.environment,
            detached=detached,
        )

    @property
    def below(self) -> Sequence[Process]:
        """See `Replicas.below`."""
        return [self.s3.process, *self.zookeepers.members]

    def start(self, deadline: float = DEADLINE_SECONDS) -> Self:
        """See `Replicas.start`. Makes the bucket as well."""
        self.s3.start(deadline)
        self.s3.make_bucket(BUCKET)
        return super().start(deadline)

    def mend_below(self, deadline: float) -> None:
        """See `Replicas.mend_below`."""
        if not self.s3.process.running:
            self.s3.start(deadline)
        self.zookeepers.serve(deadline)

    def end_below(self) -> None:
        """See `Replicas.end_below`."""
        self.s3.__exit__(None, None, None)
        self.zookeepers.kill()

"""Runs several replicas of Milepost that share their pointers and blobs, together with the servers that keep those."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.process import DEADLINE_SECONDS, Process, ProcessFailed
from testbed.server import ServerProcess


class Replicas(ABC):
    """``count`` servers with their files under ``directory``; ``flags`` are given to each.

    A subclass has the servers that keep pointers and blobs: `below` are their processes, and `mend_below` makes them
    work again, whatever a test did to them. ``detached`` parts go on after the process that started them has ended.
    """

    def __init__(
        self,
        directory: Path,
        *flags: str,
        pointers: str,
        blobs: str,
        count: int = 3,
        environment: Mapping[str, str] | None = None,
        detached: bool = False,
    ) -> None:
        self.pointers = pointers
        self.blobs = blobs
        self.replicas = [
            ServerProcess(
                directory / f"replica-{number}",
                *flags,
                pointers=pointers,
                blobs=blobs,
                environment=environment,
                detached=detached,
            )
            for number in range(1, count + 1)
        ]

    @property
    @abstractmethod
    def below(self) -> Sequence[Process]:
        """The processes that keep pointers and blobs, in the order in which they may be ended."""

    @abstractmethod
    def mend_below(self, deadline: float) -> None:
        """Start those processes of `below` that do not run, and wait until all serve. Raises `ProcessFailed`."""

    @abstractmethod
    def end_below(self) -> None:
        """End all processes of `below`."""

    @property
    def urls(self) -> list[str]:
        """The URLs of all replicas, whether they run or not."""
        return [replica.url for replica in self.replicas]

    @property
    def processes(self) -> Sequence[Process]:
        """All processes, in the order in which they may be ended."""
        return [*self.replicas, *self.below]

    def start(self, deadline: float = DEADLINE_SECONDS) -> Self:
        """Start everything and wait until one replica leads and the others know it. Raises `ProcessFailed`."""
        self.mend(deadline)
        return self

    def leader(self, deadline: float = DEADLINE_SECONDS) -> ServerProcess:
        """Return the replica that leads; wait until one does. Raises `ProcessFailed`."""
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
        self.mend_below(deadline)
        for replica in self.replicas:
            if not replica.running:
                replica.start(until=None)
        for replica in self.replicas:
            replica.wait_for("/readyz", deadline=deadline)

    def end(self) -> None:
        """End everything, the replicas first, each by SIGTERM."""
        for replica in self.replicas:
            replica.end()
        self.end_below()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

"""Runs HDFS: a NameNode and its DataNodes, each as a process of its own that can be killed, paused and restarted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed.hadoop.programs import Daemon, mbean, run
from testbed.ports import Port
from testbed.process import DEADLINE_SECONDS

_SERVER = "org.apache.hadoop.hdfs.server"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"

COMMON: Mapping[str, str] = {
    "dfs.replication": "1",
    "dfs.namenode.fs-limits.min-block-size": "65536",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    # A DataNode that is gone counts as dead after 12 seconds, not after 10 minutes, and is avoided after 3.
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.heartbeat.recheck-interval": "1000",
    "dfs.namenode.stale.datanode.interval": "3000",
    "dfs.namenode.avoid.read.stale.datanode": "true",
    "dfs.namenode.avoid.write.stale.datanode": "true",
    "dfs.namenode.redundancy.interval.seconds": "1",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.handler.count": "4",
}


class NameNode(Daemon):
    """The server that knows where each block is. Its image and its ports stay the same from one start to the next."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str], *, name: str = "namenode", detached: bool = False
    ) -> None:
        self.port = Port()
        self.http_port = Port()
        self.image = directory / "name"
        own = {
            "fs.defaultFS": f"hdfs://{self.port.address}",
            "dfs.namenode.name.dir": self.image.as_uri(),
            "dfs.namenode.http-address": self.http_port.address,
        }
        super().__init__(
            name,
            f"{_SERVER}.namenode.NameNode",
            directory,
            settings={**COMMON, **own, **settings},
            detached=detached,
        )

    def prepare(self) -> None:
        """Write the configuration, and make an empty image if there is none."""
        super().prepare()
        if not self.image.exists():
            run(f"{_SERVER}.namenode.NameNode", self.configuration, "-format", "-nonInteractive")

    def serves(self) -> bool:
        """Return whether it takes writes: it is up, and out of the safe mode, in which it waits for DataNodes."""
        info = self.mbean("NameNodeInfo")
        return info is not None and info["Safemode"] == ""

    def live(self) -> int:
        """Return how many DataNodes it counts as live that have room."""
        info = self.mbean("NameNodeInfo")
        nodes = {} if info is None else json.loads(info["LiveNodes"])
        return sum(node["remaining"] > 0 for node in nodes.values())

    def mbean(self, name: str) -> dict[str, Any] | None:
        """Return what it says about itself under ``name`` (a JMX bean); None without an answer."""
        return mbean(self.http_port.number, f"service=NameNode,name={name}")


class DataNode(Daemon):
    """A server that holds blocks, in ``directory``; its ports stay the same from one start to the next."""

    def __init__(self, directory: Path, settings: Mapping[str, str], number: int, *, detached: bool = False) -> None:
        self.data = directory / "data"
        ports = {name: Port() for name in ("address", "http.address", "ipc.address")}
        self._http_port = ports["http.address"]
        own = {
            "dfs.datanode.data.dir": self.data.as_uri(),
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.datanode.handler.count": "2",
            **{f"dfs.datanode.{name}": port.address for name, port in ports.items()},
        }
        super().__init__(
            f"datanode-{number}",
            f"{_SERVER}.datanode.DataNode",
            directory,
            settings={**COMMON, **own, **settings},
            detached=detached,
        )

    def serves(self) -> bool:
        """Return whether it is registered with every NameNode that it is configured for."""
        info = mbean(self._http_port.number, "service=DataNode,name=DataNodeInfo")
        actors = [] if info is None else json.loads(info.get("BPServiceActorInfo", "[]"))
        return bool(actors) and all(actor["ActorState"] == "RUNNING" for actor in actors)


class Hdfs:
    """A NameNode and ``datanodes`` DataNodes with their files under ``directory``; ``settings`` are for all of them."""

    def __init__(
        self,
        directory: Path,
        *,
        datanodes: int = 1,
        settings: Mapping[str, str] | None = None,
        detached: bool = False,
    ) -> None:
        self.namenode = NameNode(directory / "namenode", settings or {}, detached=detached)
        self.datanodes = [
            DataNode(
                directory / f"datanode-{number}",
                {"fs.defaultFS": f"hdfs://{self.namenode.port.address}", **(settings or {})},
                number,
                detached=detached,
            )
            for number in range(1, datanodes + 1)
        ]

    def start(self, deadline: float = DEADLINE_SECONDS) -> Hdfs:
        """Start what does not run, and wait until all serve. Raises `ProcessFailed`."""
        if not self.namenode.running:
            self.namenode.prepare()
            self.namenode.start()
        for datanode in self.datanodes:
            if not datanode.running:
                datanode.prepare()
                datanode.start()
        self.wait(deadline)
        return self

    def wait(self, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until the NameNode takes writes and counts on all DataNodes. Raises `ProcessFailed`."""
        end = time.monotonic() + deadline
        for process in (self.namenode, *self.datanodes):
            process.wait_until(self._serves, "is not part of an HDFS that serves", max(0.0, end - time.monotonic()))

    def admin(self, *arguments: str) -> str:
        """Run ``hdfs dfsadmin`` as the superuser, and return what it printed. Raises `ProcessFailed`."""
        return run(_ADMIN, self.namenode.configuration, *arguments)

    def url(self, path: str, *, replication: int | None = None) -> str:
        """Return the address for ``--blobs``."""
        options = "" if replication is None else f"?replication={replication}"
        return f"hdfs://{self.namenode.port.address}/{path}{options}"

    def _serves(self) -> bool:
        """Return whether all serve. The DataNodes are asked, too: a dead one counts as live for a while."""
        return (
            self.namenode.serves()
            and self.namenode.live() == len(self.datanodes)
            and all(datanode.serves() for datanode in self.datanodes)
        )

    def __enter__(self) -> Hdfs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in (*self.datanodes, self.namenode):
            part.kill()


@contextmanager
def hdfs(directory: Path, *, datanodes: int = 1, settings: Mapping[str, str] | None = None) -> Iterator[Hdfs]:
    """Run an HDFS for a test until the end of the block. Inside the block it serves."""
    with Hdfs(directory, datanodes=datanodes, settings=settings) as started:
        yield started.start()

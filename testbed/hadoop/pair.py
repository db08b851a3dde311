"""Runs an HDFS that survives the loss of a NameNode: two under one name, one of them active, and a DataNode."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType

from testbed.hadoop.hdfs import DataNode, NameNode
from testbed.hadoop.programs import configure, run
from testbed.process import DEADLINE_SECONDS

_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"


class HdfsPair:
    """Two NameNodes, ``nn1`` and ``nn2``, and one DataNode that knows both.

    The NameNodes share a directory with the log of all changes. Nothing fails over by itself: `activate` does what
    ZooKeeper and a controller do elsewhere.
    """

    def __init__(self, directory: Path, *, name: str = "pair") -> None:
        self.name = name
        self.client_configuration = directory / "client"
        self._common: Mapping[str, str] = {
            "fs.defaultFS": f"hdfs://{name}",
            "dfs.nameservices": name,
            f"dfs.ha.namenodes.{name}": "nn1,nn2",
            "dfs.namenode.shared.edits.dir": (directory / "shared").as_uri(),
            "dfs.ha.tail-edits.period": "1",
            "dfs.ha.fencing.methods": "shell(true)",
            "ha.failover-controller.cli-check.rpc-timeout.ms": "2000",
        }
        self.namenodes = {
            number: NameNode(directory / number, {**self._common, "dfs.ha.namenode.id": number}, name=number)
            for number in ("nn1", "nn2")
        }
        self.datanode = DataNode(directory / "datanode", self._common, 1)
        (directory / "shared").mkdir(parents=True)

    @property
    def url(self) -> str:
        """What comes before a path in ``--blobs``; HADOOP_CONF_DIR has to name `client_configuration`."""
        return f"hdfs://{self.name}"

    def start(self, deadline: float = DEADLINE_SECONDS) -> HdfsPair:
        """Start everything, with ``nn1`` active. Raises `ProcessFailed`."""
        addresses = self._addresses()
        configure(self.client_configuration, {**self._common, **addresses})
        for part in (*self.namenodes.values(), self.datanode):
            part.settings.update(addresses)
        first, second = self.namenodes.values()
        first.prepare()
        shutil.copytree(first.image, second.image)  # as documented for a new pair
        second.prepare()
        self.datanode.prepare()
        for part in (first, second, self.datanode):
            part.start()
        for namenode in (first, second):
            namenode.wait_until(partial(_stands_by, namenode), "is not up", deadline)
        self.activate("nn1", deadline)
        return self

    def activate(self, number: str, deadline: float = DEADLINE_SECONDS) -> None:
        """Make one NameNode the active one, and wait until it serves. The other must be in standby, or be gone."""
        run(_ADMIN, self.client_configuration, "-transitionToActive", "--forceactive", number)
        namenode = self.namenodes[number]
        namenode.wait_until(lambda: namenode.serves() and namenode.live() == 1, "does not serve", deadline)

    def restart(self, number: str, deadline: float = DEADLINE_SECONDS) -> None:
        """Start a NameNode that was killed, and wait until it is in standby."""
        namenode = self.namenodes[number]
        namenode.start(partial(_stands_by, namenode), deadline)

    def _addresses(self) -> dict[str, str]:
        return {
            f"dfs.namenode.{kind}-address.{self.name}.{number}": port.address
            for number, namenode in self.namenodes.items()
            for kind, port in (("rpc", namenode.port), ("http", namenode.http_port))
        }

    def __enter__(self) -> HdfsPair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in (self.datanode, *self.namenodes.values()):
            part.kill()


def _stands_by(namenode: NameNode) -> bool:
    status = namenode.mbean("NameNodeStatus")
    return status is not None and status["State"] == "standby"


@contextmanager
def hdfs_pair(directory: Path) -> Iterator[HdfsPair]:
    """Run an `HdfsPair` for a test until the end of the block. Inside the block ``nn1`` serves."""
    with HdfsPair(directory) as started:
        yield started.start()

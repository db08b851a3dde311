"""Runs ZooKeeper from the jars in the ``pyspark`` wheel: one server, or an ensemble whose members can be killed."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from testbed.java import FOR_SMALL, java
from testbed.ports import Port
from testbed.process import DEADLINE_SECONDS, Process, ProcessFailed

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS = ("zookeeper", "slf4j-api", "log4j-", "netty-", "metrics-core", "snappy-java", "commons-io", "commons-cli")
# How far a member may lag behind. ZooKeeper is told it in ticks, so it follows the ticks here: with short ticks and a
# fixed number of them, a member whose disk stalls for a second would be dropped.
_LAG_SECONDS = {"init": 30.0, "sync": 8.0}
# In an election, members repeat their votes after 0.2 s, and then after twice as long each time: by default up to a
# minute, here up to 0.4 s.
_VOTE_AGAIN = "-Dzookeeper.fastleader.maxNotificationInterval=400"
_LOGGING = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class ZooKeeperServer(Process):
    """One server. Its data stays in ``directory`` from one `start` to the next, and so does its port."""

    def __init__(
        self,
        directory: Path,
        *,
        tick_seconds: float = 2.0,
        number: int = 1,
        peers: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        detached: bool = False,
    ) -> None:
        """Describe the server; `serve` starts it.

        A session lasts for 2 to 20 ticks. ``peers`` has a line ``server.N=…`` for each member of an ensemble, and
        ``settings`` has more lines of zoo.cfg.
        """
        self.port = Port()
        self.address = self.port.address
        self._directory_of_data = directory
        self._lines = {
            "tickTime": str(round(tick_seconds * 1000)),
            "initLimit": str(math.ceil(_LAG_SECONDS["init"] / tick_seconds)),
            "syncLimit": str(math.ceil(_LAG_SECONDS["sync"] / tick_seconds)),
            "dataDir": str(directory / "data"),
            "clientPort": str(self.port.number),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            "snapCount": "10000",  # a low number: in each election members read again what follows their last snapshot
            "4lw.commands.whitelist": "srvr,ruok",
            **(settings or {}),
        }
        self._number = number
        self._peers = peers
        super().__init__(
            f"zookeeper-{number}",
            [
                str(java()),
                *FOR_SMALL,
                _VOTE_AGAIN,
                f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
                "-cp",
                _class_path(),
                _MAIN,
                str(directory / "zoo.cfg"),
            ],
            log_path=directory / "zookeeper.log",
            detached=detached,
        )

    def prepare(self) -> None:
        """Write the configuration."""
        data = self._directory_of_data / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{self._number}\n")
        lines = [*(f"{name}={value}" for name, value in self._lines.items()), *self._peers]
        (self._directory_of_data / "zoo.cfg").write_text("\n".join([*lines, ""]))
        (self._directory_of_data / "log4j2.properties").write_text(_LOGGING)

    def serve(self, deadline: float = DEADLINE_SECONDS) -> None:
        """Start it and wait until it serves clients, which a member of an ensemble does once there is a quorum."""
        self.prepare()
        self.start(self.serves, deadline)

    def serves(self) -> bool:
        """Return whether it serves clients."""
        return self.mode() is not None

    def mode(self) -> str | None:
        """Return ``standalone``, ``leader`` or ``follower``; None while it does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.port.number), 2.0) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return None
        found = [line.partition(": ")[2] for line in answer.splitlines() if line.startswith("Mode: ")]
        return found[0] if found else None


class Ensemble:
    """Several servers that together are one ZooKeeper, and elect a leader among them."""

    def __init__(self, directory: Path, *, size: int = 3, tick_seconds: float = 2.0, detached: bool = False) -> None:
        self._between = [(Port(), Port()) for _ in range(size)]
        peers = [
            f"server.{number}=127.0.0.1:{quorum.number}:{election.number}"
            for number, (quorum, election) in enumerate(self._between, 1)
        ]
        self.members = [
            ZooKeeperServer(
                directory / str(number), tick_seconds=tick_seconds, number=number, peers=peers, detached=detached
            )
            for number in range(1, size + 1)
        ]

    @property
    def hosts(self) -> str:
        """The addresses of all members, separated by commas."""
        return ",".join(member.address for member in self.members)

    def serve(self, deadline: float = DEADLINE_SECONDS) -> None:
        """Start the members that do not run, and wait until each of these serves."""
        started = [member for member in self.members if not member.running]
        for member in started:
            member.prepare()
            member.start()
        for member in started:
            member.wait_until(member.serves, "does not serve", deadline)

    def leader(self, deadline: float = DEADLINE_SECONDS) -> ZooKeeperServer:
        """Return the member that leads the others; wait until one does. Raises `ProcessFailed`."""
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            for member in self.members:
                if member.running and member.mode() == "leader":
                    return member
            time.sleep(0.05)
        raise ProcessFailed(f"no member leads after {deadline} s\n{self.members[0].logged()[-8000:]}")

    def kill(self) -> None:
        """Kill all members."""
        for member in self.members:
            member.kill()


@contextmanager
def zookeeper(directory: Path, *, tick_seconds: float = 0.2) -> Iterator[ZooKeeperServer]:
    """Run one server for a test until the end of the block. Inside the block it serves."""
    server = ZooKeeperServer(directory, tick_seconds=tick_seconds)
    try:
        server.serve()
        yield server
    finally:
        server.kill()


@contextmanager
def ensemble(directory: Path, *, tick_seconds: float = 0.2) -> Iterator[Ensemble]:
    """Run an ensemble of three for a test until the end of the block. Inside the block all of them serve."""
    servers = Ensemble(directory, tick_seconds=tick_seconds)
    try:
        servers.serve()
        yield servers
    finally:
        servers.kill()


def _class_path() -> str:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ProcessFailed("pyspark is not installed, whose jars hold ZooKeeper")
    jars = Path(spec.origin).parent / "jars"
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(_JARS))

"""How drivers and executors reach the service of a trial: at its replicas, by a forwarder, by a host's name."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from testbed.server import ServerProcess
from tests.spark.trials.plan import FORWARDER, NAME
from tests.support.network.link import Link
from tests.support.network.listener import listening

AWAY_SECONDS = 2.0
"""For so long no JVM finds the name; one that has asked meanwhile does not ask again for ten seconds (Java's own)."""
_ASK_SECONDS = 1.0
_HOST = "localhost"
_CORE_SITE = """<configuration>
<property><name>hadoop.security.token.service.use_ip</name><value>false</value></property>
</configuration>
"""  # as docs/spark.md advises


class Address:
    """Each replica at its own address. ``java_options`` are for each JVM that asks, ``settings`` for Spark."""

    def __init__(self, urls: Sequence[str], java_options: str = "", settings: Mapping[str, str] | None = None) -> None:
        self.urls = list(urls)
        self.java_options = java_options
        self.settings = dict(settings or {})

    def disturb(self) -> None:
        """Let happen what belongs to each round. Nothing does here."""


class Named(Address):
    """Each replica at a host's name, which all JVMs look up in a file of ``directory``."""

    def __init__(self, replicas: Sequence[ServerProcess], directory: Path) -> None:
        self._hosts = directory / "hosts"
        (directory / "core-site.xml").write_text(_CORE_SITE)
        super().__init__(
            [f"http://{_HOST}:{replica.port}" for replica in replicas],
            f" -Djdk.net.hosts.file={self._hosts}",
            {f"spark.{side}.extraClassPath": str(directory) for side in ("driver", "executor")},
        )
        self._tell(_HOST, socket.gethostname())

    def disturb(self) -> None:
        """The name is not known for some seconds."""
        self._tell(socket.gethostname())
        threading.Timer(AWAY_SECONDS, self._tell, [_HOST, socket.gethostname()]).start()

    def _tell(self, *names: str) -> None:
        being_written = self._hosts.with_suffix(".new")
        being_written.write_text("".join(f"127.0.0.1 {name}\n" for name in names))
        os.replace(being_written, self._hosts)


class ToTheLeader(Link):
    """Gives each new connection to the replica that leads, as the chart's Service does."""

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__(ports[0])
        self._ports = ports

    async def choose(self) -> int:
        """Where nobody leads it stays with the last that did."""
        for port in self._ports:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_ASK_SECONDS):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    try:
                        writer.write(b"GET /leader HTTP/1.1\r\nHost: leader\r\nConnection: close\r\n\r\n")
                        if (await reader.readline()).split()[1:2] == [b"200"]:
                            self.upstream = port
                            return port
                    finally:
                        writer.close()
        return self.upstream


@contextmanager
def reached(kind: str, replicas: Sequence[ServerProcess], directory: Path) -> Iterator[Address]:
    """How the replicas are reached until the end of the block; ``directory`` is to be made, and executors see it."""
    if kind == FORWARDER:
        forwarder = ToTheLeader([replica.port for replica in replicas])
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(listening(forwarder)):
            yield Address([f"http://{forwarder.address}"])
    elif kind == NAME:
        directory.mkdir()
        yield Named(replicas, directory)
    else:
        yield Address([replica.url for replica in replicas])

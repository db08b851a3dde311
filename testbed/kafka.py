"""Runs Kafka, from the jars that ``tools/maven-jars`` fetches: one process that is broker and controller (KRaft)."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testbed.commands import run
from testbed.java import FOR_SMALL, java
from testbed.maven import jars
from testbed.ports import Port
from testbed.process import DEADLINE_SECONDS, Process

_LOG_OPTIONS = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dorg.slf4j.simpleLogger.showDateTime=true")
_READY = "Kafka Server started"


class KafkaServer(Process):
    """One broker. Its data stays in ``directory`` from one `start` to the next, and so do its ports."""

    def __init__(self, directory: Path, *, settings: Mapping[str, str] | None = None, detached: bool = False) -> None:
        """Describe the broker; `serve` starts it. ``settings`` has more lines of its configuration."""
        self.port = Port()
        self._controller = Port()
        self.address = self.port.address
        self._data = directory / "data"
        self._configuration = directory / "server.properties"
        listeners = f"BROKER://{self.address},CONTROLLER://{self._controller.address}"
        self._lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self._controller.address}",
            "listeners": listeners,
            "advertised.listeners": f"BROKER://{self.address}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._data),
            # Of one broker, and small: by default there would be 50 partitions for the offsets of consumers alone.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",  # a misspelt topic has to be an error
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.enable": "false",  # its buffers alone take 128 MB
            **(settings or {}),
        }
        super().__init__(
            "kafka",
            self._java("kafka.Kafka", str(self._configuration)),
            log_path=directory / "kafka.log",
            directory=directory,
            detached=detached,
        )

    def prepare(self) -> None:
        """Write the configuration, and format the directory of its data unless that has been done."""
        self._data.parent.mkdir(parents=True, exist_ok=True)
        self._configuration.write_text("".join(f"{name}={value}\n" for name, value in self._lines.items()))
        if not (self._data / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # As one word: a name that begins with "-" would be taken for an option.
            words = ["format", f"--cluster-id={cluster}", "--config", str(self._configuration)]
            run(self._java("kafka.tools.StorageTool", *words))

    def serve(self, deadline: float = DEADLINE_SECONDS) -> KafkaServer:
        """Start it, and wait until it serves clients. Raises `ProcessFailed`."""
        self.prepare()
        return self.start(self.serves, deadline)

    def serves(self) -> bool:
        """Return whether it serves clients."""
        return _READY in self.logged() and self.port.answers()

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [str(java()), *FOR_SMALL, *_LOG_OPTIONS, "-cp", f"{jars('kafka')}/*", main, *arguments]


@contextmanager
def kafka(directory: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[KafkaServer]:
    """Run a broker for a test until the end of the block. Inside the block it serves."""
    server = KafkaServer(directory, settings=settings)
    try:
        yield server.serve()
    finally:
        server.kill()

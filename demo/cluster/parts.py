"""The servers that this demo needs, beside Spark's drivers: Milepost, Kafka, and a cluster without a common disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.replicated import ReplicatedService
from testbed.kafka import KafkaServer
from testbed.spark import Standalone

_DEADLINE_SECONDS = 240.0


@dataclass(frozen=True)
class Parts:
    """All of them serve."""

    service: ReplicatedService
    kafka: KafkaServer
    cluster: Standalone


@contextmanager
def parts(directory: Path) -> Iterator[Parts]:
    """Run them until the end of the block, with their files below ``directory``, of which no worker sees anything else
    than its own.
    """
    with ExitStack() as ends:
        service = ReplicatedService(directory / "service")
        ends.callback(service.stop)
        kafka = KafkaServer(directory / "kafka")
        ends.callback(kafka.kill)
        cluster = Standalone(directory / "cluster", hidden=directory)
        ends.callback(cluster.kill)
        kafka.prepare()
        kafka.start()  # it gets ready while the others start
        cluster.master.start()
        service.wait_until_it_leads()
        cluster.serve(_DEADLINE_SECONDS)
        kafka.wait_until(kafka.serves, "does not serve", _DEADLINE_SECONDS)
        yield Parts(service, kafka, cluster)

"""The flights as messages in Kafka, which come while the job runs, some each moment."""

from __future__ import annotations

import threading
from types import TracebackType

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from demo.processes import DemoFailed

_PARTITIONS = 3
_AT_ONCE = 3_000
_EVERY_SECONDS = 0.4
_SECONDS = 60.0


class Feed:
    """Fills a new ``topic`` of the brokers at ``address``: the key is the carrier, the value is the distance.

    It feeds the share of all flights that was allowed so far, in a thread that ends with the block.
    """

    def __init__(self, address: str, topic: str, flights: pa.Table) -> None:
        self._address = address
        self._topic = topic
        self._rows = list(zip(flights["carrier"].to_pylist(), flights["distance"].to_pylist(), strict=True))
        self._allowed = 0
        self._over = threading.Event()
        self._failed: list[BaseException | KafkaError] = []
        self._thread = threading.Thread(target=self._feed, name="feed")

    def allow(self, share: float) -> None:
        """Let so much of it all come, between 0 and 1."""
        self._allowed = round(share * len(self._rows))

    def check(self) -> None:
        """Raises `DemoFailed` if something could not be written."""
        if self._failed:
            raise DemoFailed(f"the flights could not be written to Kafka: {self._failed[0]}")

    def __enter__(self) -> Feed:
        try:
            admin = AdminClient({"bootstrap.servers": self._address})
            admin.create_topics([NewTopic(self._topic, _PARTITIONS, 1)])[self._topic].result(_SECONDS)
        except KafkaException as error:
            raise DemoFailed(f"the topic could not be made: {error}") from error
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(_SECONDS)

    def _feed(self) -> None:
        # What it logs below an error is about tries that it repeats by itself.
        quiet = {"linger.ms": 5, "log_level": 3}
        producer = Producer({"bootstrap.servers": self._address, "enable.idempotence": True, **quiet})
        fed = 0
        while not self._over.wait(_EVERY_SECONDS):
            rows = self._rows[fed : min(self._allowed, fed + _AT_ONCE)]
            try:
                for carrier, distance in rows:
                    producer.produce(self._topic, key=carrier, value=str(distance), on_delivery=self._delivered)
                    producer.poll(0)
                if producer.flush(_SECONDS):
                    raise TimeoutError(f"no answer from Kafka in {_SECONDS:g} s")
            except (KafkaException, BufferError, TimeoutError) as error:
                self._failed.append(error)
                return
            fed += len(rows)

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed.append(error)

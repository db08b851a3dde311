"""Topics of a real Kafka: made, filled, read whole, and shortened as their retention would."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

SECONDS = 60.0
FEED_SECONDS = 240.0
_POLL_SECONDS = 0.05
KEYS = 12
T = TypeVar("T")
Rows = list[tuple[str, int]]
"""Keys and numbers."""


class Topics:
    """The topics of the broker at ``address``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": address})

    def make(self, topic: str, partitions: int, *, seconds: float = SECONDS) -> None:
        """Make a topic. Raises `KafkaException` if that takes longer."""
        asked = self._admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=seconds)
        asked[topic].result(seconds + SECONDS)

    def remove(self, topic: str) -> None:
        """Delete a topic."""
        self._admin.delete_topics([topic])[topic].result(SECONDS)

    def is_gone(self, topic: str) -> bool:
        """Whether a topic that was deleted is gone, which takes a moment."""
        return topic not in self._admin.list_topics(timeout=SECONDS).topics

    def put(self, topic: str, rows: Iterable[tuple[str, int]]) -> None:
        """Append rows, of each key in order; all are there when this returns."""
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True, "linger.ms": 5})
        failed: list[KafkaError] = []
        for key, number in rows:
            producer.produce(
                topic, key=key, value=str(number), on_delivery=lambda error, _: failed.append(error) if error else None
            )
        assert producer.flush(SECONDS) == 0
        assert not failed

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Delete the records before an offset, as their retention does once they are old."""
        wanted = TopicPartition(topic, partition, before)
        for answer in self._admin.delete_records([wanted]).values():
            assert answer.result(SECONDS).low_watermark == before

    def size(self, topic: str) -> int:
        """How many records there are."""
        return sum(high - low for low, high in self.ends(topic).values())

    def read(self, topic: str) -> Counter[tuple[str, str]]:
        """How often each key and value is there."""
        ends = self.ends(topic)
        consumer = Consumer(
            {"bootstrap.servers": self.address, "group.id": f"reader-of-{topic}", "enable.auto.commit": False}
        )
        try:
            consumer.assign([TopicPartition(topic, number, low) for number, (low, _) in ends.items()])
            left = self.size(topic)
            found: Counter[tuple[str, str]] = Counter()
            until = time.monotonic() + SECONDS
            while left:
                assert time.monotonic() < until, f"{left} records of {topic} did not come"
                for message in consumer.consume(left, 1.0):
                    assert message.error() is None, message.error()
                    found[_text(message.key()), _text(message.value())] += 1
                    left -= 1
            return found
        finally:
            consumer.close()

    def ends(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first offset of each partition, and the one after its last."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "ends"})
        try:
            partitions = consumer.list_topics(topic, SECONDS).topics[topic].partitions
            return {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), SECONDS) for number in partitions
            }
        finally:
            consumer.close()


class Feed:
    """Gives rows to a driver that drops duplicates, each row twice in two batches, and never more than it has done.

    So a driver under test has work for as long as the test needs, however slow the machine, and no more than that.
    ``batch`` is how many new rows a batch has, and ``seen`` counts those that the driver has told of.
    """

    def __init__(self, topics: Topics, topic: str, batch: int, seen: Callable[[], int]) -> None:
        self._topics, self._topic, self._batch, self._seen = topics, topic, batch, seen
        self.count = 0
        """How many different rows there are."""

    def until(self, holds: Callable[[], T], seconds: float = FEED_SECONDS) -> T:
        """Put one batch after the other until something holds of the driver in the midst of one; return that."""
        until = time.monotonic() + seconds
        while not (held := holds()):
            assert time.monotonic() < until, f"it did not come about in {self.count // self._batch} batches"
            if self.done():
                self._put(self._batch)
            time.sleep(_POLL_SECONDS)
        return held

    def end(self, seconds: float = FEED_SECONDS) -> None:
        """Put what is there once a second time, and rows of all keys behind it; wait until those were told of."""
        self._put(KEYS)
        until = time.monotonic() + seconds
        while not self.done():
            assert time.monotonic() < until, f"{self._seen()} of {self.count} rows were told of"
            time.sleep(_POLL_SECONDS)

    def done(self) -> bool:
        """Whether all rows were told of."""
        return self._seen() == self.count

    def _put(self, count: int) -> None:
        again = min(self._batch, self.count)
        self._topics.put(self._topic, rows(again, self.count - again) + rows(count, self.count))
        self.count += count


def rows(count: int, first: int = 0) -> Rows:
    """So many rows, of `KEYS` keys."""
    return [(f"k{number % KEYS}", number) for number in range(first, first + count)]


def totals(of: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """Of each key the sum of its numbers, and how many there are."""
    sums: dict[str, tuple[int, int]] = {}
    for key, number in of:
        total, count = sums.get(key, (0, 0))
        sums[key] = (total + number, count + 1)
    return sums


def _text(content: str | bytes | None) -> str:
    assert content is not None
    return content if isinstance(content, str) else content.decode()

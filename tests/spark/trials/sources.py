"""Where the input of a trial comes from: files, a topic of Kafka, or Spark's own rate source.

Each can say which lines lie between two offsets that Spark has logged. So the rows that a batch must have are known
from what it read, whoever ran it, and however the input came to be divided.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer

from tests.spark.clusters.topics import SECONDS, Topics
from tests.spark.trials.queries import EPOCH, Line, lines
from tests.spark.trials.reading import Reading

PARTITIONS = 2
_ROWS = 12
Offset = Any
"""What Spark has logged of a source; None before its first entry."""


class Source(Protocol):
    """Input that comes bit by bit."""

    @property
    def reading(self) -> Reading: ...

    def feed(self, count: int) -> None:
        """Let so many more batches of input come."""

    def between(self, before: Offset, end: Offset) -> list[Line]:
        """The lines that a batch has read that began after one offset and ended with the other."""

    def used_up(self, end: Offset) -> bool:
        """Whether nothing that was fed is left after this offset."""


class Files:
    """Files in a directory, one for each batch and each newer than the one before."""

    def __init__(self, directory: Path) -> None:
        self._ready, self._coming = directory / "in", directory / "coming"
        for place in (self._ready, self._coming):
            place.mkdir(parents=True)
        self._count = 0

    @property
    def reading(self) -> Reading:
        return Reading("json", {"path": str(self._ready), "maxFilesPerTrigger": "1"}, "k long, v long, t long")

    def feed(self, count: int) -> None:
        """Each file is whole from its first moment."""
        for _ in range(count):
            path = self._coming / f"{self._count:05}.json"
            path.write_text("".join(json.dumps(vars(line)) + "\n" for line in lines(self._count)))
            os.utime(path, (EPOCH + self._count, EPOCH + self._count))
            path.rename(self._ready / path.name)
            self._count += 1

    def between(self, before: Offset, end: Offset) -> list[Line]:
        first = -1 if before is None else int(before["logOffset"])
        last = -1 if end is None else int(end["logOffset"])
        return [line for index in range(first + 1, last + 1) for line in lines(index)]

    def used_up(self, end: Offset) -> bool:
        return end is not None and int(end["logOffset"]) == self._count - 1


class Topic:
    """A topic; what a batch takes is bounded, so that it does not take all that has come."""

    def __init__(self, topics: Topics, name: str) -> None:
        self._topics, self._name = topics, name
        self._rows: list[list[Line]] = [[] for _ in range(PARTITIONS)]
        self._count = 0
        topics.make(name, PARTITIONS)

    @property
    def reading(self) -> Reading:
        options = {"kafka.bootstrap.servers": self._topics.address, "subscribe": self._name}
        options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(_ROWS)}
        value = "get_json_object(CAST(value AS STRING), '$.{0}')"
        return Reading(
            "kafka", options, columns=tuple(f"CAST({value.format(name)} AS LONG) AS {name}" for name in ("k", "v", "t"))
        )

    def feed(self, count: int) -> None:
        """All of it is there when this returns."""
        producer = Producer({"bootstrap.servers": self._topics.address, "enable.idempotence": True})
        failed: list[object] = []
        for _ in range(count):
            for line in lines(self._count):
                partition = line.k % PARTITIONS
                self._rows[partition].append(line)
                producer.produce(
                    self._name,
                    value=json.dumps(vars(line)),
                    partition=partition,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
            self._count += 1
        assert producer.flush(SECONDS) == 0
        assert not failed

    def between(self, before: Offset, end: Offset) -> list[Line]:
        return [
            line
            for partition, rows in enumerate(self._rows)
            for line in rows[self._of(before, partition) : self._of(end, partition)]
        ]

    def used_up(self, end: Offset) -> bool:
        return all(self._of(end, partition) == len(rows) for partition, rows in enumerate(self._rows))

    def _of(self, offset: Offset, partition: int) -> int:
        return 0 if offset is None else int(offset[self._name].get(str(partition), 0))


class Rate:
    """Spark's source for tests with a fixed number of rows a batch, which never ends; nobody has to feed it."""

    @property
    def reading(self) -> Reading:
        options = {"rowsPerBatch": str(_ROWS), "numPartitions": "2"}
        columns = (
            "pmod(value * 7919, 10 + value div 6) AS k",
            "pmod(value * 104729, 1000) AS v",
            f"{EPOCH} + value div 3 - pmod(value * 31, 12) AS t",
        )
        return Reading("rate-micro-batch", options, columns=columns)

    def feed(self, count: int) -> None:
        """It feeds itself."""

    def between(self, before: Offset, end: Offset) -> list[Line]:
        first = 0 if before is None else int(before["offset"])
        return [
            Line(number * 7919 % (10 + number // 6), number * 104729 % 1000, EPOCH + number // 3 - number * 31 % 12)
            for number in range(first, 0 if end is None else int(end["offset"]))
        ]

    def used_up(self, _end: Offset) -> bool:
        """It never is, and what has been read is all that there was."""
        return True

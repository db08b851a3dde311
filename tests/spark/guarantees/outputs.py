"""What the sinks of one trial hold in the end: how often each row is there, as a reader of that sink sees it."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.clusters.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES, ROWS = 4, 20
"""How many files of input there are, each of which is one batch, and how many rows are in each."""
KILLED_IN, HELD_IN = 1, 2
"""The batch in which the first driver is killed, and that in which the second one stands still."""
HELD = HELD_IN * ROWS + ROWS // 2
"""The value at which it does."""
KEYS = 10
"""How many keys there are where rows are summed up: of a value the remainder."""
_WRITTEN = 1_700_000_000


def held(directory: str | Path, sink: str) -> str:
    """The column ``v`` in SQL, where a task can stand still at the row `HELD`."""
    return f"CAST(java_method('Hold', 'at', '{directory}', '{sink}', v, {HELD}L) AS LONG)"


@dataclass(frozen=True)
class Repeated:
    """How many rows a sink has twice of the batch whose driver was killed, and of that whose driver went on late."""

    killed: int
    late: int


@dataclass(frozen=True)
class Outputs:
    """The places of one trial: ``directory`` for input, files and the hold; ``tree`` for files in the job's tree."""

    directory: Path
    tree: str
    topics: Topics
    topic: str

    @property
    def input(self) -> Path:
        return self.directory / "in"

    def prepare(self) -> None:
        """Write the input, and make the topic."""
        self.input.mkdir(parents=True)
        for batch in range(BATCHES):
            self.add(batch)
        self.topics.make(self.topic, 1)

    def add(self, batch: int) -> None:
        """Write the input of one batch."""
        lines = [json.dumps({"v": value}) + "\n" for value in range(batch * ROWS, (batch + 1) * ROWS)]
        path = self.input / f"{batch}.json"
        path.write_text("".join(lines))
        os.utime(path, (_WRITTEN + batch, _WRITTEN + batch))  # Spark takes the oldest first

    def arm(self, sinks: list[str]) -> None:
        """Let a task of each sink stand still at the row `HELD`, once."""
        for sink in sinks:
            (self.directory / f"armed-{sink}").touch()

    def stands(self, sinks: list[str]) -> bool:
        """Whether one does of each of these."""
        return all((self.directory / f"held-{sink}").exists() for sink in sinks)

    def held_in(self, sink: str) -> int | None:
        """The number of the batch in which a task of this sink stands still, if one does and has said so."""
        path = self.directory / f"held-{sink}"
        text = path.read_text() if path.exists() else ""
        return int(text) if text else None

    def let_go(self) -> None:
        """Let them go on."""
        (self.directory / "go").touch()

    def parquet(self, spark: SparkSession, path: str) -> Counter[int]:
        """The rows of a directory of Spark's file sink."""
        return Counter(row.v for row in spark.read.parquet(path).collect())

    def kafka(self) -> Counter[int]:
        """The rows of the topic."""
        found = Counter[int]()
        for (_, value), times in self.topics.read(self.topic).items():
            found[int(value)] += times
        return found

    def lines(self, name: str) -> Counter[int]:
        """The rows of a file with one in each line."""
        return Counter(map(int, (self.directory / name).read_text().split()))


def repeated(found: Counter[int]) -> Repeated:
    """What is there twice. Nothing may be missing, and nothing else be there more than once."""
    wanted = set(range(BATCHES * ROWS))
    assert set(found) == wanted, f"missing: {sorted(wanted - set(found))}, unknown: {sorted(set(found) - wanted)}"
    twice = [value for value, times in found.items() for _ in range(times - 1)]
    batches = Counter(value // ROWS for value in twice)
    assert set(batches) <= {KILLED_IN, HELD_IN}, batches
    return Repeated(batches[KILLED_IN], batches[HELD_IN])

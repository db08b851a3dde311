"""The queries that are measured, and the input of each batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.spark.trials.queries import PROVIDERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "k long, v long"
_ROWS = 2000
_STATE_BYTES = 1024
"""What a key of the state has for its value, so that a thousand keys are a megabyte."""


@dataclass(frozen=True)
class Case:
    """A query with ``keys`` keys of state (0: none) in ``partitions``, of which each batch changes ``rows``.

    ``settings`` are Spark's, and hold from the start of the query on. The first batch brings every key.
    """

    name: str
    build: Callable[[DataFrame], DataFrame]
    keys: int = 0
    rows: int = _ROWS
    partitions: int = 4
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """The query's output mode."""
        return "update" if self.keys else "append"

    def lines(self, number: int) -> str:
        """The input of a batch, the same for every location."""
        source = random.Random(number)
        keys = range(self.keys) if self.keys and number == 0 else source.sample(range(self.keys or 10**6), self.rows)
        return "".join(f'{{"k":{key},"v":{source.randrange(1000)}}}\n' for key in keys)


def _stateless(frame: DataFrame) -> DataFrame:
    return frame.where("v % 3 != 0").selectExpr("k", "v * 2 AS w")


def _sums(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").sum("v")


def _long_values(frame: DataFrame) -> DataFrame:
    """The latest value of each key, long, and binary so that nothing can compress it."""
    from pyspark.sql import functions as f

    pieces = [f.unhex(f.sha2(f.concat_ws("-", "k", "v", f.lit(piece)), 512)) for piece in range(_STATE_BYTES // 64)]
    return frame.groupBy("k").agg(f.max(f.struct("v", f.concat(*pieces).alias("long"))).alias("latest"))


_ROCKSDB = PROVIDERS["rocksdb-changelog"]

CASES = {
    case.name: case
    for case in (
        Case("stateless", _stateless),
        Case("aggregation-4", _sums, keys=20_000),
        Case("aggregation-64", _sums, keys=20_000, partitions=64),
        Case("state-1MB", _long_values, keys=1_000, rows=10),
        Case("state-1MB-rocksdb", _long_values, keys=1_000, rows=10, settings=_ROCKSDB),
        Case("state-300MB-rocksdb", _long_values, keys=300_000, rows=3_000, settings=_ROCKSDB),
    )
}
"""By name. State is in Spark's default store, or in RocksDB with its changelog, which is what 300 MB call for."""

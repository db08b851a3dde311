"""Input, queries over it, and what each batch of them must publish, computed without Spark."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row: TypeAlias = tuple[int, int]
"""What every query puts out: a key ``k`` and a value ``w``."""

_ROWS = 12
EPOCH = 1_700_000_000
_WINDOW = 5
_DELAY = 10


@dataclass(frozen=True)
class Line:
    """One line of input: a key, a value, and an event time in seconds."""

    k: int
    v: int
    t: int


Batches: TypeAlias = "Sequence[list[Line]]"
"""What each batch reads."""


def _all(_line: Line) -> bool:
    return True


@dataclass(frozen=True)
class Kind:
    """A query: how Spark is asked, the rows that it must publish for what its batches read, and what it takes from each
    of its sources.
    """

    mode: str
    build: Callable[[DataFrame], DataFrame]
    rows: Callable[[Batches], list[list[Row]]]
    sources: tuple[Callable[[Line], bool], ...] = (_all,)

    def expected(self, files: int) -> list[list[Row]]:
        """The rows of the batches where each reads one file."""
        return self.rows([lines(index) for index in range(files)])

    def expected_of(self, ends: Sequence[Sequence[int]]) -> list[list[Row]]:
        """The rows of batches that each read on to these files, one for each source.

        A batch may read more than one file, also with one file per trigger: where a query ended after Spark had logged
        a file, and before it had logged the batch, the next one adds a file to that.
        """
        batches: list[list[Line]] = []
        before: Sequence[int] = [-1] * len(self.sources)
        for end in ends:
            parts = zip(self.sources, before, end, strict=True)
            read = [(takes, index) for takes, first, last in parts for index in range(first + 1, last + 1)]
            batches.append([line for takes, index in read for line in lines(index) if takes(line)])
            before = end
        return self.rows(batches)


def lines(index: int) -> list[Line]:
    """The lines of file ``index``; keys repeat within and across files, event times rise with some disorder."""
    source = random.Random(f"file {index}")
    return [
        Line(source.randrange(10 + 4 * index), source.randrange(1000), EPOCH + 4 * index + source.randrange(-12, 4))
        for _ in range(_ROWS)
    ]


def write_input(directory: Path, count: int) -> None:
    """Files 0 to ``count`` - 1, of rising modification times: with one file per trigger, batch N reads file N."""
    directory.mkdir(parents=True)
    for index in range(count):
        path = directory / f"{index:05}.json"
        path.write_text("".join(json.dumps(vars(line)) + "\n" for line in lines(index)))
        os.utime(path, (EPOCH + index, EPOCH + index))


def read_input(spark: SparkSession, directory: str) -> DataFrame:
    """The files as a stream, one per batch."""
    stream = spark.readStream.schema("k long, v long, t long").option("maxFilesPerTrigger", 1)
    return stream.json(directory)


def _stateless(frame: DataFrame) -> DataFrame:
    return frame.where("v % 3 != 0").selectExpr("k", "v * 2 AS w")


def _stateless_rows(batches: Batches) -> list[list[Row]]:
    return [sorted((line.k, line.v * 2) for line in batch if line.v % 3) for batch in batches]


def _aggregation(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").sum("v").selectExpr("k", "`sum(v)` AS w")


def aggregation_rows(batches: Batches) -> list[list[Row]]:
    """Of each key that a batch reads the sum so far."""
    sums: dict[int, int] = {}
    rows = []
    for batch in batches:
        for line in batch:
            sums[line.k] = sums.get(line.k, 0) + line.v
        rows.append(sorted({(line.k, sums[line.k]) for line in batch}))
    return rows


def _deduplication(frame: DataFrame) -> DataFrame:
    return frame.dropDuplicates(["k"]).selectExpr("k", "k * 2 AS w")


def _deduplication_rows(batches: Batches) -> list[list[Row]]:
    seen: set[int] = set()
    rows = []
    for batch in batches:
        new = {line.k for line in batch} - seen
        seen |= new
        rows.append(sorted((k, k * 2) for k in new))
    return rows


def _windows(frame: DataFrame) -> DataFrame:
    timed = frame.selectExpr("timestamp_seconds(t) AS at").withWatermark("at", f"{_DELAY} seconds")
    counted = timed.selectExpr("window(at, '5 seconds') AS span").groupBy("span").count()
    return counted.selectExpr("unix_timestamp(span.start) AS k", "count AS w")


def _windows_rows(batches: Batches) -> list[list[Row]]:
    """Append mode: a window comes out once the watermark, known before the batch, has passed its end.

    Rows that are late by the watermark of the batch before are dropped. After the last of these Spark runs one batch
    without data, for the watermark that it has moved.
    """
    counts: dict[int, int] = {}
    newest, watermark, watermark_before = 0, 0, 0
    rows: list[list[Row]] = []
    for data in [*batches, []]:
        for line in data:
            start = line.t // _WINDOW * _WINDOW
            if start + _WINDOW > watermark_before:
                counts[start] = counts.get(start, 0) + 1
        done = sorted(start for start in counts if start + _WINDOW <= watermark)
        rows.append([(start, counts.pop(start)) for start in done])
        newest = max([newest, *(line.t for line in data)])
        watermark_before, watermark = watermark, max(watermark, newest - _DELAY)
    return rows


KINDS: dict[str, Kind] = {
    "stateless": Kind("append", _stateless, _stateless_rows),
    "aggregation": Kind("update", _aggregation, aggregation_rows),
    "deduplication": Kind("append", _deduplication, _deduplication_rows),
    "windows": Kind("append", _windows, _windows_rows),
}

_STATE = "spark.sql.streaming.stateStore."
_ROCKSDB = {f"{_STATE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
_CHANGELOG = {**_ROCKSDB, f"{_STATE}rocksdb.changelogCheckpointing.enabled": "true"}
PROVIDERS: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": _ROCKSDB,
    "rocksdb-changelog": _CHANGELOG,
    "rocksdb-v2": {**_CHANGELOG, f"{_STATE}checkpointFormatVersion": "2"},
}
"""Settings of the state store that each name stands for."""


def contents(files: Iterator[Path]) -> list[Row]:
    """The rows of Parquet files, sorted."""
    import pyarrow.parquet

    rows: list[Row] = []
    for path in files:
        rows.extend((row["k"], row["w"]) for row in pyarrow.parquet.ParquetFile(path).read().to_pylist())
    return sorted(rows)

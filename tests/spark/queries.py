"""Input, queries over it, and what each batch of them must publish, computed without Spark."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row: TypeAlias = tuple[int, int]
"""What every query puts out: a key ``k`` and a value ``w``."""

_ROWS = 12
_EPOCH = 1_700_000_000
_WINDOW = 5
_DELAY = 10


@dataclass(frozen=True)
class Line:
    """One line of input: a key, a value, and an event time in seconds."""

    k: int
    v: int
    t: int


@dataclass(frozen=True)
class Kind:
    """A query: how Spark is asked, and the batches that it must publish for so many files of input."""

    mode: str
    build: Callable[[DataFrame], DataFrame]
    expected: Callable[[int], list[list[Row]]]


def lines(index: int) -> list[Line]:
    """The lines of file ``index``; keys repeat within and across files, event times rise with some disorder."""
    source = random.Random(f"file {index}")
    return [
        Line(source.randrange(10 + 4 * index), source.randrange(1000), _EPOCH + 4 * index + source.randrange(-12, 4))
        for _ in range(_ROWS)
    ]


def write_input(directory: Path, count: int) -> None:
    """Files 0 to ``count`` - 1, of rising modification times: with one file per trigger, batch N reads file N."""
    directory.mkdir(parents=True)
    for index in range(count):
        path = directory / f"{index:05}.json"
        path.write_text("".join(json.dumps(vars(line)) + "\n" for line in lines(index)))
        os.utime(path, (_EPOCH + index, _EPOCH + index))


def read_input(spark: SparkSession, directory: str) -> DataFrame:
    """The files as a stream, one per batch."""
    stream = spark.readStream.schema("k long, v long, t long").option("maxFilesPerTrigger", 1)
    return stream.json(directory)


def _stateless(frame: DataFrame) -> DataFrame:
    return frame.where("v % 3 != 0").selectExpr("k", "v * 2 AS w")


def _stateless_expected(files: int) -> list[list[Row]]:
    return [sorted((line.k, line.v * 2) for line in lines(i) if line.v % 3) for i in range(files)]


def _aggregation(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").sum("v").selectExpr("k", "`sum(v)` AS w")


def _aggregation_expected(files: int) -> list[list[Row]]:
    sums: dict[int, int] = {}
    batches = []
    for index in range(files):
        for line in lines(index):
            sums[line.k] = sums.get(line.k, 0) + line.v
        batches.append(sorted({(line.k, sums[line.k]) for line in lines(index)}))
    return batches


def _deduplication(frame: DataFrame) -> DataFrame:
    return frame.dropDuplicates(["k"]).selectExpr("k", "k * 2 AS w")


def _deduplication_expected(files: int) -> list[list[Row]]:
    seen: set[int] = set()
    batches = []
    for index in range(files):
        new = {line.k for line in lines(index)} - seen
        seen |= new
        batches.append(sorted((k, k * 2) for k in new))
    return batches


def _windows(frame: DataFrame) -> DataFrame:
    timed = frame.selectExpr("timestamp_seconds(t) AS at").withWatermark("at", f"{_DELAY} seconds")
    counted = timed.selectExpr("window(at, '5 seconds') AS span").groupBy("span").count()
    return counted.selectExpr("unix_timestamp(span.start) AS k", "count AS w")


def _windows_expected(files: int) -> list[list[Row]]:
    """Append mode: a window comes out once the watermark, known before the batch, has passed its end.

    Rows that are late by the watermark of the batch before are dropped. After the last file Spark runs one batch
    without data, for the watermark that this file has moved.
    """
    counts: dict[int, int] = {}
    newest, watermark, watermark_before = 0, 0, 0
    batches = []
    for index in range(files + 1):
        data = lines(index) if index < files else []
        for line in data:
            start = line.t // _WINDOW * _WINDOW
            if start + _WINDOW > watermark_before:
                counts[start] = counts.get(start, 0) + 1
        done = sorted(start for start in counts if start + _WINDOW <= watermark)
        batches.append([(start, counts.pop(start)) for start in done])
        newest = max([newest, *(line.t for line in data)])
        watermark_before, watermark = watermark, max(watermark, newest - _DELAY)
    return batches


KINDS: dict[str, Kind] = {
    "stateless": Kind("append", _stateless, _stateless_expected),
    "aggregation": Kind("update", _aggregation, _aggregation_expected),
    "deduplication": Kind("append", _deduplication, _deduplication_expected),
    "windows": Kind("append", _windows, _windows_expected),
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

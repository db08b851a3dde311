"""What a source says of the lines between two offsets is what Spark reads there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.trials.sources import Files, Rate, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

_BATCHES = 3
_SECONDS = 120.0


@pytest.mark.parametrize("name", ["files", "rate"])
def test_spark_reads_those_lines(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Kafka's topics are read by the runs themselves: a batch that had others would have other rows."""
    source: Source = Files(tmp_path) if name == "files" else Rate()
    source.feed(_BATCHES)
    read: dict[int, list[tuple[int, int, int]]] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        read[batch] = sorted((row.k, row.v, row.t) for row in frame.collect())

    writer = source.reading.frame(spark).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.foreachBatch(keep).start()
    until = time.monotonic() + _SECONDS
    while len(read) < _BATCHES:
        assert query.isActive, query.exception()
        assert time.monotonic() < until
        time.sleep(0.05)
    query.stop()
    before = None
    for batch in range(_BATCHES):
        (end,) = map(json.loads, (tmp_path / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[2:])
        assert read[batch] == sorted((line.k, line.v, line.t) for line in source.between(before, end))
        before = end
    if name == "files":
        assert source.used_up(before)
        assert not source.used_up({"logOffset": 0})

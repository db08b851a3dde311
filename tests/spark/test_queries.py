"""What the tests expect of each query is what Spark gives when nobody interrupts it and Milepost is not there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.queries import KINDS, read_input, write_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_FILES = 8


@pytest.mark.parametrize("kind", KINDS)
def test_plain_spark_agrees(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    write_input(tmp_path / "in", _FILES)
    batches: list[list[tuple[int, int]]] = []

    def publish(frame: DataFrame, _batch: int) -> None:
        batches.append(sorted((row.k, row.w) for row in frame.collect()))

    writer = KINDS[kind].build(read_input(spark, str(tmp_path / "in"))).writeStream.outputMode(KINDS[kind].mode)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(publish)
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert batches == KINDS[kind].expected(_FILES)

"""What the tests expect of each query is what Spark gives when nobody interrupts it and Milepost is not there."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.trials.queries import KINDS, PROVIDERS, read_input, write_input
from tests.spark.trials.stateful import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

_FILES = 8
_FILES_OF_SLOW = 5


@pytest.mark.parametrize("kind", QUERIES)
def test_plain_spark_agrees(spark: SparkSession, tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    files = _FILES if kind in KINDS else _FILES_OF_SLOW
    write_input(tmp_path / "in", files)
    if kind == "transform":
        for key, value in PROVIDERS["rocksdb"].items():
            spark.conf.set(key, value)
            request.addfinalizer(partial(spark.conf.unset, key))
    batches: list[list[tuple[int, int]]] = []

    def publish(frame: DataFrame, _batch: int) -> None:
        batches.append(sorted((row.k, row.w) for row in frame.collect()))

    writer = QUERIES[kind].build(read_input(spark, str(tmp_path / "in"))).writeStream.outputMode(QUERIES[kind].mode)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(publish)
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert batches == QUERIES[kind].expected(files)


@pytest.mark.parametrize("kind", QUERIES)
def test_a_batch_may_read_several_files(kind: str) -> None:
    """As many rows of a query without memory, and the same end of one that sums up, however its input is divided."""
    query, files = QUERIES[kind], 6
    sources = len(query.sources)
    assert query.expected_of([[index] * sources for index in range(files)]) == query.expected(files)
    divided = query.expected_of([[0] * sources, [2] * sources, [files - 1] * sources])
    assert len(divided) == len(query.expected(3))
    of_few, of_many = list(chain(*divided)), list(chain(*query.expected(files)))
    if kind in ("stateless", "deduplication", "join"):
        assert sorted(of_few) == sorted(of_many)
    if kind in ("aggregation", "pandas"):
        assert dict(of_few) == dict(of_many)

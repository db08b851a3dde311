"""Where a query would read Kafka on, as its checkpoint says it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from milepost.errors import LostOffsets, OffsetsExpired, SparkDriverError
from milepost.spark.kafka import check_offsets, wanted_offsets
from milepost.spark.output.file_systems import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

V1, V2 = 'v1\n{"conf":{}}', 'v2\n{"conf":{},"sourceMetadataInfo":{}}'


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    """Files of this machine."""
    return HadoopFiles(spark)


def put(directory: Path, path: str, content: str) -> None:
    """A file of a checkpoint."""
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    (directory / path).write_text(content)


def test_a_query_that_has_not_begun_wants_nothing(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> None:
    assert wanted_offsets(files, str(tmp_path / "nowhere")) == {}
    check_offsets(spark, str(tmp_path / "nowhere"), {})


def test_a_committed_batch_is_read_on_where_it_ended(files: HadoopFiles, tmp_path: Path) -> None:
    put(tmp_path, "offsets/9", f'{V1}\n{{"flights":{{"0":12,"1":3}}}}')
    put(tmp_path, "offsets/10", f'{V1}\n{{"flights":{{"0":19,"1":5}}}}')
    put(tmp_path, "commits/9", "v1\n{}")
    assert wanted_offsets(files, str(tmp_path)) == {("flights", 0): 12, ("flights", 1): 3}
    put(tmp_path, "commits/10", "v1\n{}")
    assert wanted_offsets(files, str(tmp_path)) == {("flights", 0): 19, ("flights", 1): 5}


def test_the_first_batch_begins_where_the_source_began(files: HadoopFiles, tmp_path: Path) -> None:
    put(tmp_path, "offsets/0", f'{V1}\n{{"flights":{{"0":12}}}}')
    put(tmp_path, "sources/0/0", 'v1\n{"flights":{"0":7}}')
    assert wanted_offsets(files, str(tmp_path)) == {("flights", 0): 7}


def test_each_source_has_its_own_and_other_kinds_are_passed_over(files: HadoopFiles, tmp_path: Path) -> None:
    for batch, first in ((0, 2), (1, 4)):
        lines = ['{"logOffset":0}', f'{{"a":{{"0":{first}}}}}', "-", f'{{"a":{{"0":{first + 9}}},"b":{{"3":1}}}}', "5"]
        put(tmp_path, f"offsets/{batch}", "\n".join([V1, *lines]))
    put(tmp_path, "commits/0", "v1\n{}")
    assert wanted_offsets(files, str(tmp_path)) == {("a", 0): 2, ("b", 3): 1}
    assert wanted_offsets(files, str(tmp_path), "3") == {("a", 0): 11, ("b", 3): 1}


def test_sources_that_the_log_names_are_found_by_their_names(files: HadoopFiles, tmp_path: Path) -> None:
    """Version 2 of the log, as Spark writes it when it is asked to."""
    put(tmp_path, "offsets/0", f'{V2}\nflights:{{"a":{{"0":8}}}}\n1:{{"b":{{"0":9}}}}\n2:-')
    put(tmp_path, "commits/0", "v1\n{}")
    assert wanted_offsets(files, str(tmp_path)) == {("a", 0): 8, ("b", 0): 9}
    assert wanted_offsets(files, str(tmp_path), "flights") == {("a", 0): 8}


def test_a_spark_that_cannot_read_kafka_is_told_so(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "offsets/0", f'{V1}\n{{"flights":{{"0":12}}}}')
    put(tmp_path, "commits/0", "v1\n{}")
    with pytest.raises(SparkDriverError, match="spark-sql-kafka-0-10"):
        check_offsets(spark, str(tmp_path), {"kafka.bootstrap.servers": "127.0.0.1:1"})


def test_the_error_survives_pickling() -> None:
    error = OffsetsExpired("gone", [LostOffsets("flights", 0, 3, 9, 12)])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.lost) == (str(error), error.lost)

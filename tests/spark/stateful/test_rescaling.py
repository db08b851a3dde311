"""A frame is divided whatever its columns are called and made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from milepost.spark.managed.rescaling import divided, grouping_key
from milepost.state.processors.task import KEY, PARTITION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_structs_with_odd_names_of_fields(spark: SparkSession) -> None:
    from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

    names = ["a.b", "", "x`y", "a b", "case", "CASE", "1:long,z", "int"]
    inner = StructType([StructField(name, LongType()) for name in names])
    schema = StructType(
        [
            StructField("key", StringType()),
            StructField("one", inner, nullable=False),
            StructField("many", ArrayType(inner)),
            StructField("yes", BooleanType(), nullable=False),
        ]
    )
    values = tuple(range(len(names)))
    rows: list[Any] = [(key, values, [values], True) for key in "abcdef"]
    frame = spark.createDataFrame(rows, schema)
    found = divided(frame, grouping_key(frame, ["key"]), 8, 2)
    assert found.columns == [*schema.names, KEY, PARTITION]
    taken = found.mapInArrow(lambda batches: batches, found.schema).collect()
    data = [row for row in taken if row[KEY] is not None]
    assert sorted((row[0], tuple(row[1]), [tuple(each) for each in row[2]], row[3]) for row in data) == rows
    assert data[0][1].__fields__ == names
    firsts = [row for row in taken if row[KEY] is None]
    assert sorted(row[PARTITION] for row in firsts) == [0, 1]
    assert {(row[0], row[1], row[2], row[3]) for row in firsts} == {(None, None, None, False)}

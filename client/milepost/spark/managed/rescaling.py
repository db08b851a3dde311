"""Divides a frame among tasks, in Spark SQL: each task gets the rows of its key groups, sorted by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from milepost.errors import UnsafeQuery
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.task import KEY, PARTITION, RESERVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_DELAY = "spark.watermarkDelayMs"
_UNSET = {"byte": 0, "short": 0, "integer": 0, "long": 0, "boolean": False}
"""The values of the extra first row of a partition, which no row of the frame corresponds to. A null there would make
pandas turn a column of whole numbers into floats.
"""


def grouping_key(frame: DataFrame, columns: Sequence[str]) -> GroupingKey:
    """Return the encoding of keys that consist of these ``columns``. Raises `UnsafeQuery` for columns that cannot be a
    key.
    """
    types = {field.name: field.dataType for field in frame.schema.fields}
    for column in columns:
        if column not in types:
            raise UnsafeQuery(f"the frame has no column {column!r} that could be the key: it has {', '.join(types)}")
        if _has_collation(types[column]):
            raise UnsafeQuery(f"the column {column!r} has a collation, and no key can: cast it to a plain string")
    for name in frame.columns:
        if name in RESERVED:
            raise UnsafeQuery(f"the frame has a column named {name}, a name that Milepost uses: rename it")
    return GroupingKey([(column, types[column].jsonValue()) for column in columns])


def divided(frame: DataFrame, key: GroupingKey, groups: int, partitions: int) -> DataFrame:
    """Return the frame divided into ``partitions`` by the key groups of its rows, and sorted by key within each
    partition. ``groups`` is the number of key groups.

    Each partition begins with an extra row without a key, so that Spark runs a task for a partition that has no other
    rows. The columns for partition and key come after those of the frame.
    """
    from pyspark.sql.functions import expr, lit

    spark = frame.sparkSession
    keyed = frame.selectExpr("*", f"{key.sql()} AS {KEY}")
    group = f"crc32({KEY}) % {groups}"
    keyed = keyed.selectExpr("*", f"cast(({group}) * {partitions} div {groups} AS int) AS {PARTITION}")
    first = spark.range(0, partitions, 1, 1).select(
        *(lit(_UNSET.get(field.dataType.typeName())).cast(field.dataType) for field in frame.schema.fields),
        lit(None).cast("binary"),
        expr("cast(id AS int)"),
    )
    both = keyed.union(first).repartitionById(partitions, PARTITION)
    return both.sortWithinPartitions(PARTITION, KEY)


def without_late(frame: DataFrame, watermark: int) -> DataFrame:
    """Return the frame without late rows, whose event time is at or before the ``watermark`` (milliseconds since 1970).
    If no column of the frame has a watermark, no row is late.
    """
    from pyspark.sql.types import StructType, TimestampType

    for field in frame.schema.fields:
        if _DELAY not in (field.metadata or {}):
            continue
        column = _quoted(field.name)
        if isinstance(field.dataType, StructType) and "end" in field.dataType.names:
            column = f"{column}.end"
        elif not isinstance(field.dataType, TimestampType):
            continue
        return frame.where(f"{column} IS NULL OR {column} > timestamp_millis({watermark})")
    return frame


def parsed_output(output: StructType | str) -> StructType:
    """Return ``output`` as a struct type; it may also be given as DDL text, such as "id long, count int". Raises
    `UnsafeQuery` for any other type.
    """
    from pyspark.sql.types import StructType

    found: Any = StructType.fromDDL(output) if isinstance(output, str) else output
    if not isinstance(found, StructType):
        raise UnsafeQuery(f"output_type has to be a struct or the text of one, not {output!r}")
    return found


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _has_collation(kind: DataType) -> bool:
    return "collate" in kind.simpleString()

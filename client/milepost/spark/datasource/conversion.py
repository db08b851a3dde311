"""Converts the columns of a Parquet file into those that Spark expects.

A frame over published files has one schema, and each file the schema of its batch. `milepost.spark.output.schemas`
decides whether values can be read with the other schema; this module reads them so: columns that a file lacks are null,
and values get a wider type, also within structs, arrays and maps.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from milepost.errors import UnsafeQuery

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the rows that Spark expects for ``schema``.

    Raises `UnsafeQuery` for a type that no Python data source can return.
    """
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema

    # From Spark 4.2 on, the caller names the time zone; before that, it is UTC by default.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    try:
        return to_arrow_schema(schema, **zone)
    except PySparkTypeError as error:
        raise UnsafeQuery(
            f"Spark takes a column of this type from no Python data source ({error}): choose other columns with "
            "schema(), or use milepost.spark.read_published"
        ) from error


def converted(found: pa.RecordBatch, target: pa.Schema, constants: dict[str, Any]) -> pa.RecordBatch:
    """Return rows of a file with the columns of ``target``; ``constants`` has columns with one value for all rows."""
    arrays = [
        pa.repeat(pa.scalar(constants[field.name], field.type), found.num_rows)
        if field.name in constants
        else _column(found.schema.names, found.columns, field, found.num_rows)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def named(names: Sequence[str], name: str) -> int | None:
    """Return the place of the column that Spark reads for ``name``: of this name, else of one that differs only in
    case. None if there is none.
    """
    for same in (str, str.lower):
        for place, each in enumerate(names):
            if same(each) == same(name):
                return place
    return None


def _column(names: Sequence[str], columns: Sequence[pa.Array], field: pa.Field, rows: int) -> pa.Array:
    place = named(names, field.name)
    return pa.nulls(rows, field.type) if place is None else _values(columns[place], field.type)


def _values(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if types.is_struct(kind) and types.is_struct(array.type):
        inner = [array.field(place) for place in range(array.type.num_fields)]
        names = [array.type.field(place).name for place in range(array.type.num_fields)]
        fields = [kind.field(place) for place in range(kind.num_fields)]
        children = [_column(names, inner, field, len(array)) for field in fields]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if types.is_map(kind) and types.is_map(array.type):
        keys, items = _values(array.keys, kind.key_type), _values(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind)
    if types.is_list(kind) and types.is_list(array.type):
        return pa.ListArray.from_arrays(_offsets(array), _values(array.values, kind.value_type), type=kind)
    return pc.cast(array, kind)


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of a list or a map, with null in place of the offset of a null."""
    if array.null_count == 0:
        return array.offsets
    starts = pc.if_else(array.is_valid(), array.offsets[:-1], pa.scalar(None, pa.int32()))
    return pa.concat_arrays([starts, array.offsets[-1:]])

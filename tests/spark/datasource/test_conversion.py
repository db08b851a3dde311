"""Columns of files become those that Spark expects, with every null where it was."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from milepost.spark.datasource.conversion import converted

UTC = timezone.utc


@pytest.mark.parametrize(
    ("found", "wanted", "values", "expected"),
    [
        (pa.int8(), pa.int64(), [1, None], [1, None]),
        (pa.int64(), pa.decimal128(20, 0), [2**62, None], [Decimal(2**62), None]),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), [datetime(2026, 1, 1)], [datetime(2026, 1, 1, tzinfo=UTC)]),
        (
            pa.list_(pa.int32()),
            pa.list_(pa.int64()),
            [[1], None, [], [2, None]],
            [[1], None, [], [2, None]],
        ),
        (
            pa.map_(pa.string(), pa.int32()),
            pa.map_(pa.string(), pa.int64()),
            [[("a", 1)], None, [("b", None), ("c", 2)]],
            [[("a", 1)], None, [("b", None), ("c", 2)]],
        ),
        (
            pa.struct([("b", pa.int32()), ("A", pa.int32()), ("gone", pa.int32())]),
            pa.struct([("a", pa.int64()), ("b", pa.int64()), ("new", pa.string())]),
            [{"b": 1, "A": 2, "gone": 3}, None],
            [{"a": 2, "b": 1, "new": None}, None],
        ),
        (
            pa.list_(pa.struct([("x", pa.int32())])),
            pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())])),
            [[{"x": 1}, None], None],
            [[{"x": 1, "y": None}, None], None],
        ),
    ],
)
def test_a_column_of_a_file_gets_the_type_of_the_frame(
    found: pa.DataType, wanted: pa.DataType, values: list[Any], expected: list[Any]
) -> None:
    """Also of a slice, as Arrow may return it."""
    rows = pa.RecordBatch.from_arrays([pa.array([*values, *values], found)], ["Column"])
    target = pa.schema([("column", wanted), ("batch", pa.int64()), ("later", pa.string())])
    for part in (rows.slice(0, len(values)), rows.slice(len(values))):
        made = converted(part, target, {"batch": 7})
        assert made.schema == target
        made.validate(full=True)
        assert made.column(0).to_pylist() == expected
        assert made.column(1).to_pylist() == [7] * len(values)
        assert made.column(2).null_count == len(values)


def test_a_value_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(pa.ArrowInvalid):
        converted(pa.RecordBatch.from_arrays([pa.array([300])], ["c"]), pa.schema([("c", pa.int8())]), {})

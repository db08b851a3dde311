"""Which types Spark's readers read together: a table of pairs, of which each one is read, and its values compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from milepost.errors import UnsafeQuery
from milepost.spark.output.schemas import united

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES: Mapping[str, list[Any]] = {
    "tinyint": [1, -1, 127, -128],
    "smallint": [1, 32767, -32768],
    "int": [1, 70000, 2**31 - 1, -(2**31)],
    "bigint": [1, 70000, 2**40 + 1, 2**63 - 1, -(2**63)],
    "float": [1.5, 2.0**100],
    "double": [1.5, 0.1, 1e300],
    "boolean": [True, False],
    "string": ["a", "5", "ü", ""],
    "binary": [bytearray(b"a"), bytearray(b"\xff")],
    "date": [date(2020, 1, 1), date(1500, 1, 1), date(1, 1, 1)],
    "timestamp": [datetime(2020, 1, 1, 1, 1, 1, 5)],
    "timestamp_ntz": [datetime(2020, 1, 1, 1, 1, 1, 5), datetime(1500, 1, 1)],
    "decimal(5,2)": [Decimal("1.25"), Decimal("-999.99")],
    "decimal(7,4)": [Decimal("1.2525"), Decimal("-999.9999")],
    "decimal(10,0)": [Decimal(5), Decimal(-9999999999)],
    "decimal(12,2)": [Decimal("1.25"), Decimal("-9999999999.99")],
    "decimal(20,0)": [Decimal(5), Decimal(-99999999999999999999)],
    "decimal(25,6)": [Decimal("1.25"), Decimal("-9999999999999999999.999999")],
    "decimal(38,18)": [Decimal("1.25"), Decimal("-99999999999999999999.999999999999999999")],
}
RIGHT: Mapping[str, str] = {
    "tinyint": "smallint int bigint double decimal(10,0) decimal(12,2) decimal(20,0) decimal(25,6) decimal(38,18)",
    "smallint": "int bigint double decimal(10,0) decimal(12,2) decimal(20,0) decimal(25,6) decimal(38,18)",
    "int": "bigint double decimal(10,0) decimal(12,2) decimal(20,0) decimal(25,6) decimal(38,18)",
    "bigint": "decimal(20,0) decimal(38,18)",
    "float": "double",
    "string": "binary",
    "date": "timestamp_ntz",
    "decimal(5,2)": "decimal(7,4) decimal(12,2) decimal(25,6) decimal(38,18)",
    "decimal(7,4)": "decimal(25,6) decimal(38,18)",
    "decimal(10,0)": "decimal(12,2) decimal(20,0) decimal(25,6) decimal(38,18)",
    "decimal(12,2)": "decimal(25,6) decimal(38,18)",
    "decimal(20,0)": "decimal(38,18)",
    "decimal(25,6)": "decimal(38,18)",
}
"""The types that read a type's values as they are. All other pairs of types above are refused."""
PAIRS = [(old, new) for old, all_new in RIGHT.items() for new in all_new.split(" ")]
SILENT = [
    ("smallint", "tinyint"),
    ("int", "tinyint"),
    ("int", "smallint"),
    ("int", "date"),
    ("tinyint", "date"),
    ("date", "int"),
    ("date", "bigint"),
    ("date", "double"),
    ("timestamp_ntz", "bigint"),
    ("binary", "string"),
    ("decimal(5,2)", "int"),
    ("decimal(5,2)", "bigint"),
    ("decimal(5,2)", "date"),
]
"""Pairs that are read without an error, as other values."""
NESTED = [
    ("struct<a:int>", (70000,), "struct<a:bigint>", (70000,)),
    ("struct<a:int>", (70000,), "struct<b:string,A:double>", (None, 70000.0)),
    ("struct<a:int,b:string>", (1, "x"), "struct<b:string>", ("x",)),
    ("struct<a:int>", (1,), "struct<b:array<int>>", (None,)),
    ("struct<s:struct<a:tinyint>>", ((1,),), "struct<s:struct<a:int,b:int>,t:int>", ((1, None), None)),
    ("array<int>", [70000, None], "array<bigint>", [70000, None]),
    ("array<decimal(5,2)>", [Decimal("1.25")], "array<decimal(12,2)>", [Decimal("1.25")]),
    ("array<struct<a:int,b:int>>", [(1, 2), None], "array<struct<b:bigint,c:int>>", [(2, None), None]),
    ("array<array<float>>", [[1.5]], "array<array<double>>", [[1.5]]),
    ("map<int,int>", {70000: 1}, "map<bigint,double>", {70000: 1.0}),
    ("map<string,struct<a:int>>", {"k": (1,)}, "map<string,struct<a:bigint,b:int>>", {"k": (1, None)}),
]
NESTED_SILENT = [
    ("struct<a:int>", "struct<a:smallint>"),
    ("struct<s:struct<a:int>>", "struct<s:struct<a:date>>"),
    ("array<int>", "array<smallint>"),
    ("array<struct<a:int>>", "array<struct<a:smallint>>"),
    ("map<string,int>", "map<string,smallint>"),
    ("map<int,int>", "map<smallint,int>"),
]
NESTED_REFUSED = [
    ("struct<a:int>", "int"),
    ("int", "struct<a:int>"),
    ("array<int>", "array<string>"),
    ("array<int>", "map<int,int>"),
    ("struct<a:array<int>>", "struct<a:array<boolean>>"),
    ("map<struct<a:int,b:int>,int>", "map<struct<a:int>,int>"),  # two keys may become one
]
SETTINGS = list(product(["true", "false"], repeat=2))
"""Spark's readers: the vectorized one, and the one of rows; and files with dictionaries, and without."""

_SCHEMAS: dict[str, str] = {}


def goes(spark: SparkSession, old: str, new: str) -> bool:
    for kind in (old, new):
        if kind not in _SCHEMAS:
            _SCHEMAS[kind] = spark.createDataFrame([], f"v {kind}").schema.json()
    try:
        united(_SCHEMAS[old], _SCHEMAS[new], "do not")
    except UnsafeQuery:
        return False
    return True


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {key: str(spark.conf.get(key)) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def plain(value: Any) -> Any:
    """A value by which types of one meaning compare as equal: a row is a tuple, a day its first moment."""
    if isinstance(value, (tuple, list)):
        return type(value) is list, [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (bytes, bytearray, str)):
        return value.encode() if isinstance(value, str) else bytes(value)
    return datetime(value.year, value.month, value.day) if type(value) is date else value


def read_back(spark: SparkSession, path: Path, columns: list[tuple[str, list[Any], str]]) -> Iterator[list[list[Any]]]:
    """Write a column for each type and its values, and read all as the other types, with each of Spark's readers."""
    depth = max(len(values) for _, values, _ in columns)
    rows = [tuple((values + [None] * depth)[row] for _, values, _ in columns) for row in range(depth)] * 2
    for vectorized, dictionary in SETTINGS:
        place = f"{path}/{vectorized}-{dictionary}"
        settings = {
            "spark.sql.parquet.enableVectorizedReader": vectorized,
            "spark.sql.session.timeZone": "Asia/Tokyo",
        }
        with configured(spark, settings):
            written = spark.createDataFrame(rows, ", ".join(f"c{n} {old}" for n, (old, _, _) in enumerate(columns)))
            written.coalesce(1).write.option("parquet.enable.dictionary", dictionary).parquet(place)
            asked = ", ".join(f"c{n} {new}" for n, (_, _, new) in enumerate(columns))
            found = spark.read.schema(asked).parquet(place).collect()
        yield [[plain(row[n]) for row in found][: len(values)] for n, (_, values, _) in enumerate(columns)]


@pytest.mark.spark
def test_each_pair_of_the_table_is_read_as_the_values_that_were_written(spark: SparkSession, tmp_path: Path) -> None:
    columns = [(old, VALUES[old], new) for old, new in PAIRS]
    columns += [(old, [value], new) for old, value, new, _ in NESTED]
    expected = [[plain(value) for value in VALUES[old]] for old, _ in PAIRS] + [[plain(read)] for *_, read in NESTED]
    for found in read_back(spark, tmp_path, columns):
        for (old, _, new), got, wanted in zip(columns, found, expected, strict=True):
            assert got == wanted, f"{old} read as {new}"


@pytest.mark.spark
def test_exactly_the_pairs_of_the_table_go_together(spark: SparkSession) -> None:
    assert [pair for pair in product(VALUES, VALUES) if pair[0] != pair[1] and goes(spark, *pair)] == sorted(
        PAIRS, key=lambda pair: [list(VALUES).index(kind) for kind in pair]
    )
    assert all(goes(spark, kind, kind) for kind in VALUES)
    assert [(old, new) for old, _, new, _ in NESTED if not goes(spark, old, new)] == []
    assert [pair for pair in NESTED_SILENT + NESTED_REFUSED if goes(spark, *pair)] == []


@pytest.mark.spark
def test_pairs_that_spark_reads_as_other_values_in_silence_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    columns = [(old, VALUES[old][:2], new) for old, new in SILENT]  # Python has no day for the largest
    for found in read_back(spark, tmp_path, columns):
        for (old, values, new), got in zip(columns, found, strict=True):
            assert got != [plain(value) for value in values], f"{old} read as {new}"
            assert not goes(spark, old, new)

"""Values of Spark's types as JSON, and keys from JSON."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from milepost.state.errors import InvalidUse
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.types import json_of, key_of, row_json

NOON = datetime(2013, 1, 1, 12, 0, 0, 250_000, tzinfo=timezone.utc)


def struct(**kinds: Any) -> Any:
    return {"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("long", 2**63 - 1, 2**63 - 1),
        ("boolean", False, False),
        ("string", "ä", "ä"),
        ("double", 0.1, 0.1),
        ("double", math.nan, "NaN"),
        ("float", math.inf, "Infinity"),
        ("float", -math.inf, "-Infinity"),
        ("binary", b"\0\xff", "AP8="),
        ("date", date(2013, 1, 1), "2013-01-01"),
        ("timestamp", NOON, "2013-01-01T12:00:00.250000Z"),
        ("timestamp", NOON.astimezone().replace(tzinfo=None), "2013-01-01T12:00:00.250000Z"),
        ("timestamp_ntz", NOON.replace(tzinfo=None), "2013-01-01T12:00:00.250000"),
        ("decimal(10,2)", Decimal("1.50"), "1.50"),
        ("interval day to second", timedelta(days=-1, microseconds=1), -86_399_999_999),
        ({"type": "array", "elementType": "date"}, [date(2013, 1, 1), None], ["2013-01-01", None]),
        ({"type": "map", "keyType": "binary", "valueType": "long"}, {b"a": 1}, [["YQ==", 1]]),
        (struct(a="long", b=struct(c="binary")), (1, (b"a",)), {"a": 1, "b": {"c": "YQ=="}}),
        (struct(a="long"), None, None),
    ],
)
def test_values(kind: Any, value: Any, expected: Any) -> None:
    found = json_of(kind, value)
    assert (found, type(found)) == (expected, type(expected))
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


def test_rows() -> None:
    assert row_json(struct(a="date", b="long"), (None, 1)) == {"a": None, "b": 1}


COLUMNS = [("a", "string"), ("b", "binary"), ("c", "long"), ("d", "boolean"), ("e", "date"), ("f", "timestamp")]


def test_a_key_has_the_bytes_that_it_was_stored_under() -> None:
    given = json.loads('["x", "AP8=", -5, true, "2013-01-01", "2013-01-01T13:00:00.250+01:00"]')
    found = key_of(COLUMNS, given)
    key = GroupingKey(COLUMNS)
    assert key.encode(found) == key.encode(("x", b"\0\xff", -5, True, date(2013, 1, 1), NOON))
    assert key.encode(key_of(COLUMNS, [None] * 6)) == b"\0" * 6
    assert key_of([("f", "timestamp")], ["2013-01-01T12:00:00.250Z"]) == (NOON,)


@pytest.mark.parametrize(
    ("columns", "given", "said"),
    [
        (COLUMNS, [], "array of 6: a string"),
        (COLUMNS[:1], "x", "array of 1"),
        (COLUMNS[:1], {"a": "x"}, "array of 1"),
        (COLUMNS[:1], [5], "a of the key is of the type string, and in JSON text"),
        (COLUMNS[1:2], ["%"], "no binary"),
        (COLUMNS[2:3], [True], "whole number"),
        (COLUMNS[2:3], [1.0], "whole number"),
        (COLUMNS[3:4], [1], "true or false"),
        (COLUMNS[4:5], ["2013-13-01"], "no date"),
        (COLUMNS[5:], ["2013-01-01T12:00:00"], "zone"),
    ],
)
def test_what_is_no_key(columns: Any, given: Any, said: str) -> None:
    with pytest.raises(InvalidUse, match=said):
        key_of(columns, given)

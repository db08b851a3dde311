"""Grouping keys and rows as bytes."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.errors import CoderError, InvalidUse
from milepost.state.processors import GroupingKey
from milepost.state.processors.variables import RowCoder

COLUMNS = [("a", "string"), ("b", "long"), ("c", "binary"), ("d", "boolean"), ("e", "date")]
KEYS = st.tuples(
    st.none() | st.text(),
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    st.none() | st.binary(),
    st.none() | st.booleans(),
    st.none() | st.dates(),
)


@given(KEYS, KEYS)
def test_a_key_comes_back_and_none_begins_another(first: Any, second: Any) -> None:
    coder = GroupingKey(COLUMNS)
    one, two = coder.encode(first), coder.encode(second)
    assert coder.decode(one) == first
    assert (one == two) == (first == second)
    assert first == second or not one.startswith(two)


@pytest.mark.parametrize(
    "kind", ["double", "float", "decimal(10,2)", "timestamp_ntz", {"type": "array", "elementType": "long"}]
)
def test_types_that_no_key_can_have(kind: Any) -> None:
    with pytest.raises(InvalidUse, match="no key can have that"):
        GroupingKey([("a", kind)])


@pytest.mark.parametrize("data", [b"", b"\2", b"\1\0\0\0\5ab", b"\1\0\0\0\1a!", b"\1\0\0\0\1\xff"])
def test_bytes_that_are_no_key(data: bytes) -> None:
    with pytest.raises(CoderError):
        GroupingKey([("a", "string")]).decode(data)


def struct(**fields: Any) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()],
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("byte", -128),
        ("double", 0.5),
        ("boolean", True),
        ("binary", b"\0"),
        ("date", date(1969, 12, 31)),
        ("timestamp", datetime(2024, 2, 29, 12, 30, 1, 5)),
        ("timestamp_ntz", datetime(1960, 1, 1, 0, 0, 0, 7)),
        ("decimal(10,2)", Decimal("1.50")),
        ("interval day to second", timedelta(days=-1, microseconds=3)),
        ({"type": "array", "elementType": "string", "containsNull": True}, ["a", None]),
        ({"type": "map", "keyType": "string", "valueType": "long"}, {"a": 1}),
        (struct(x="long", y=struct(z="string")), (1, ("q",))),
    ],
)
def test_a_value_of_each_type_comes_back(kind: Any, value: Any) -> None:
    coder = RowCoder([struct(v=kind)])
    assert coder.decode(coder.encode((value,))) == (value,)
    assert coder.decode(coder.encode((None,))) == (None,)


def test_a_time_with_a_zone_is_the_same_moment() -> None:
    coder = RowCoder([struct(v="timestamp")])
    moment = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    (found,) = coder.decode(coder.encode((moment,)))
    assert found.astimezone(timezone.utc) == moment


@pytest.mark.parametrize("data", [b"", b"\0", b"\7\x91\1", b"\0\x91", b"\0\1"])
def test_bytes_that_are_no_row(data: bytes) -> None:
    with pytest.raises(CoderError):
        RowCoder([struct(v="long")]).decode(data)


@pytest.mark.parametrize(
    ("kind", "one", "same"),
    [
        ("double", 0.0, -0.0),
        ("float", float("nan"), -float("nan")),
        ("decimal(10,2)", Decimal("1.0"), Decimal("1.00")),
        ("decimal(10,2)", Decimal("0.00"), Decimal("-0.0")),
        ({"type": "array", "elementType": "double", "containsNull": True}, [0.0], [-0.0]),
    ],
)
def test_equal_keys_of_a_map_are_one_entry(kind: Any, one: Any, same: Any) -> None:
    coder = RowCoder((struct(a=kind),), numbered=False)
    assert coder.encode((one,)) == coder.encode((same,))


def test_decimals_have_the_digits_of_their_type() -> None:
    coder = RowCoder((struct(a="decimal(5,2)"),))
    for text, kept in (("1", "1.00"), ("2.005", "2.01"), ("-999.99", "-999.99")):
        assert str(coder.decode(coder.encode((Decimal(text),)))[0]) == kept
    for wrong in ("1000", "NaN", "Infinity"):
        with pytest.raises(CoderError):
            coder.encode((Decimal(wrong),))


def test_text_that_is_no_unicode_is_no_key() -> None:
    with pytest.raises(CoderError, match="no Unicode"):
        GroupingKey([("a", "string")]).encode(("\ud800",))

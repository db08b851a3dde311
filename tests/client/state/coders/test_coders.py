"""Every coder gives back what it took, sorts where it says so, and answers bad input with `CoderError` alone."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.coders import (
    ArrowRowCoder,
    BoolCoder,
    BytesCoder,
    Coder,
    CoderError,
    FixedIntCoder,
    FloatCoder,
    JsonCoder,
    ListCoder,
    MsgpackCoder,
    NullableCoder,
    TimestampCoder,
    TupleCoder,
    Utf8Coder,
    VarintCoder,
)
from milepost.state.coders.pickled import PickleCoder

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
DOCUMENT = st.recursive(
    st.none() | st.booleans() | LONG | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=6,
)
MOMENT = st.datetimes(
    datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.sampled_from([timezone.utc, timezone(timedelta(hours=-7))])
)
ROW = ArrowRowCoder(pa.schema([pa.field("id", pa.int64(), False), pa.field("tags", pa.list_(pa.string()))]))
PAIR = TupleCoder(Utf8Coder(), FixedIntCoder(4), BytesCoder())


class Case(NamedTuple):
    """A coder, and the values that it takes."""

    coder: Coder[Any]
    values: st.SearchStrategy[Any]


CASES = {
    "bytes": Case(BytesCoder(), st.binary()),
    "text": Case(Utf8Coder(), TEXT),
    "bool": Case(BoolCoder(), st.booleans()),
    "integer": Case(FixedIntCoder(), LONG),
    "short": Case(FixedIntCoder(2, signed=False), st.integers(0, 65535)),
    "varint": Case(VarintCoder(), LONG | st.integers(-300, 300)),
    "float": Case(FloatCoder(), st.floats(allow_nan=False)),
    "timestamp": Case(TimestampCoder(), MOMENT),
    "tuple": Case(PAIR, st.tuples(TEXT, st.integers(-(1 << 31), (1 << 31) - 1), st.binary())),
    "fixed tuple": Case(TupleCoder(BoolCoder(), FloatCoder()), st.tuples(st.booleans(), st.floats(allow_nan=False))),
    "nullable": Case(NullableCoder(Utf8Coder()), st.none() | TEXT),
    "list": Case(ListCoder(BytesCoder()), st.lists(st.binary())),
    "list of lists": Case(ListCoder(ListCoder(VarintCoder())), st.lists(st.lists(LONG))),
    "json": Case(JsonCoder(), DOCUMENT),
    "msgpack": Case(MsgpackCoder(), DOCUMENT | st.binary()),
    "row": Case(ROW, st.fixed_dictionaries({"id": LONG, "tags": st.none() | st.lists(TEXT | st.none())})),
    "pickle": Case(PickleCoder(), st.sets(st.integers()) | DOCUMENT),
}
each = pytest.mark.parametrize("name", CASES)
sorted_ones = pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.coder.ordered])


def test_who_sorts_and_who_may_be_a_key() -> None:
    """What the coders promise, once more and by hand: a promise that is dropped must not drop its test in silence."""
    sort = {"bytes", "text", "bool", "integer", "short", "float", "timestamp", "tuple", "fixed tuple", "nullable"}
    assert {name for name, case in CASES.items() if case.coder.ordered} == sort | {"list"}
    keys = {name for name, case in CASES.items() if case.coder.deterministic}
    assert keys == sort | {"list", "list of lists", "varint"}


@each
@given(data=st.data())
def test_a_value_comes_back_as_it_went(name: str, data: st.DataObject) -> None:
    coder, values = CASES[name]
    value = data.draw(values)
    encoded = coder.encode(value)
    again = coder.decode(encoded)
    assert again == value
    assert type(again) is type(value)
    assert coder.width in (None, len(encoded))


@sorted_ones
@given(data=st.data())
def test_bytes_compare_as_values_do(name: str, data: st.DataObject) -> None:
    coder, values = CASES[name]
    low, high = data.draw(values), data.draw(values)
    if name == "nullable":
        before, same = (low is not None, low or "") < (high is not None, high or ""), low == high
    else:
        before, same = low < high, low == high
    assert (coder.encode(low) < coder.encode(high)) == before
    assert (coder.encode(low) == coder.encode(high)) == same


@each
@given(data=st.data())
def test_bad_bytes_are_a_coder_error(name: str, data: st.DataObject) -> None:
    """Bytes that are any, or are good ones that were damaged; what is taken all the same is written again the same."""
    coder, values = CASES[name]
    good = coder.encode(data.draw(values))
    place = data.draw(st.integers(0, max(0, len(good) - 1)))
    damaged = st.sampled_from([good[:place], good + b"\0", good[:place] + b"\xff" + good[place + 1 :]])
    # Bytes that pickle is given run; only damaged ones of plain values are harmless.
    encoded = data.draw(damaged if name == "pickle" else damaged | st.binary(max_size=40))
    try:
        value = coder.decode(encoded)
    except CoderError:
        return
    if coder.deterministic:
        assert coder.encode(value) == encoded


@each
@given(value=DOCUMENT | st.binary() | st.just(float("nan")) | st.tuples(LONG, TEXT) | st.sets(LONG) | st.just(object()))
def test_a_value_of_another_kind_is_a_coder_error(name: str, value: Any) -> None:
    coder = CASES[name].coder
    try:
        encoded = coder.encode(value)
    except CoderError:
        return
    again = coder.decode(encoded)
    assert type(again) is type(value)
    assert again == value or isinstance(value, float) or type(value) is object


@pytest.mark.parametrize(
    ("coder", "value"),
    [
        (FixedIntCoder(2), 1 << 15),
        (FixedIntCoder(2, signed=False), -1),
        (FixedIntCoder(), True),
        (VarintCoder(), 1 << 63),
        (Utf8Coder(), "\ud800"),
        (TimestampCoder(), datetime(2026, 1, 1)),
        (TimestampCoder(), datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))),
        (PAIR, ("a", 1)),
        (JsonCoder(), {1: "a"}),
        (JsonCoder(), (1, 2)),
        (JsonCoder(), math.inf),
        (MsgpackCoder(), (1, 2)),
        (MsgpackCoder(), 1 << 64),
        (ROW, {"id": 1}),
        (ROW, {"id": None, "tags": None}),
        (ROW, {"id": "x", "tags": None}),
    ],
)
def test_what_would_not_come_back_is_refused(coder: Coder[Any], value: Any) -> None:
    with pytest.raises(CoderError):
        coder.encode(value)


@pytest.mark.parametrize(
    ("coder", "data"),
    [
        (JsonCoder(), b"[" * 100_000),
        (JsonCoder(), b'{"a":1,"a":2}'),
        (JsonCoder(), b"NaN"),
        (JsonCoder(), b"1e999"),
        (MsgpackCoder(), b"\x91" * 100_000),
        (MsgpackCoder(), b"\x81\x90\x01"),  # a list as a key
        (VarintCoder(), b"\x80\x00"),  # a zero in two bytes
        (VarintCoder(), b"\xff" * 9 + b"\x7f"),
        (FloatCoder(), b"\x7f" + b"\xff" * 7),  # -0.0
        (TimestampCoder(), b"\xff" * 8),
        (ROW, b""),
    ],
)
def test_what_no_coder_wrote_is_refused(coder: Coder[Any], data: bytes) -> None:
    with pytest.raises(CoderError):
        coder.decode(data)


def test_a_float_is_one_key_where_it_is_one_number() -> None:
    coder = FloatCoder()
    assert coder.encode(-0.0) == coder.encode(0.0)
    assert coder.encode(math.nan) == coder.encode(-math.nan) > coder.encode(math.inf)
    assert math.isnan(coder.decode(coder.encode(math.nan)))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 99), st.binary())
def test_a_prefix_of_a_tuple_is_a_prefix_of_its_bytes(word: str, number: int, data: bytes) -> None:
    whole = PAIR.encode((word, number, data))
    assert whole.startswith(PAIR.prefix(word))
    assert whole.startswith(PAIR.prefix(word, number))
    assert not PAIR.encode((word + "\0", number, data)).startswith(PAIR.prefix(word))


def test_pickle_is_not_among_the_coders_that_are_offered() -> None:
    from milepost.state import coders

    assert "PickleCoder" not in coders.__all__
    assert not hasattr(coders, "PickleCoder")

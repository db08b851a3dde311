"""Values as bytes and back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.codecs import from_json, json_state, pickle_state, unsafe_from_pickle

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(values.filter(lambda value: "\ud800" not in repr(value)))
def test_json_comes_back_as_it_went(value: object) -> None:
    assert from_json(json_state(value)) == value


def test_equal_values_are_equal_bytes() -> None:
    assert json_state({"b": 1, "a": "é"}) == json_state({"a": "é", "b": 1}) == '{"a":"é","b":1}'.encode()


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), b"bytes", {1, 2}])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        json_state(value)


@pytest.mark.parametrize("state", [b"", b"{", b"\xff"])
def test_what_is_no_json_is_refused(state: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_json(state)


def test_pickle_is_another_thing() -> None:
    assert unsafe_from_pickle(pickle_state({1, 2})) == {1, 2}
    with pytest.raises(ValueError, match=r".+"):
        from_json(pickle_state({1, 2}))

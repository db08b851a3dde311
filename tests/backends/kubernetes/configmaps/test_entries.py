"""Records as entries of a ConfigMap: nothing is lost, nothing is mixed up, and damage stays where it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost_backends.kubernetes.configmaps.entries import encode, is_tombstone, key_of, size_of, value_of

pytestmark = pytest.mark.kubernetes

KEYS = st.text("ab._-/", min_size=1, max_size=12) | st.text("ab_/-", min_size=200, max_size=600)
VALUES = st.binary(max_size=40) | st.text(max_size=20).map(str.encode) | st.sampled_from([b"", b"!", b"!deleted"])

TAKEN_BY_KUBERNETES = re.compile(r"[-._a-zA-Z0-9]{1,253}\Z")


@given(KEYS, VALUES)
def test_a_record_comes_back_as_it_was(key: str, value: bytes) -> None:
    data_key, text = encode(key, value)
    assert TAKEN_BY_KUBERNETES.match(data_key)
    assert key_of(data_key, text) == key
    assert value_of(text) == value
    assert not is_tombstone(text)
    assert size_of(data_key, text) == len(data_key) + len(text.encode())


@given(KEYS)
def test_a_tombstone_is_told_from_any_value(key: str) -> None:
    data_key, text = encode(key, None)
    assert is_tombstone(text)
    assert key_of(data_key, text) == key
    assert data_key == encode(key, b"value")[0]


@given(st.lists(KEYS, unique=True, max_size=20))
def test_no_two_keys_share_an_entry(keys: list[str]) -> None:
    assert len({encode(key, b"")[0] for key in keys}) == len(keys)


def test_text_is_stored_as_it_is() -> None:
    assert encode("stores/my_job/handles/a.b", b'{"schema": 1}') == ("stores_.my__job_.handles_.a.b", '{"schema": 1}')


@pytest.mark.parametrize("value", [b"", b"!text\n", b"!base64\n", b"!key a\n!deleted", b"\xff\x00", b"\x00"])
def test_values_that_look_like_directives_come_back(value: bytes) -> None:
    assert value_of(encode("a", value)[1]) == value


@pytest.mark.parametrize("text", ["!base64\n***", "!unknown\nx", "!", "!base64\nYQ", "!deleted "])
def test_a_value_that_makes_no_sense_is_delivered_as_it_is(text: str) -> None:
    assert not is_tombstone(text)
    assert value_of(text) == text.encode()


def test_a_long_key_that_was_overwritten_is_still_an_entry_of_its_own() -> None:
    """What its key was is lost with its value; what it is reported under begins like it."""
    key = "stores/" + "s" * 200 + "/handles/" + "h" * 200
    data_key, _ = encode(key, b"1")
    reported = key_of(data_key, "garbage")
    assert reported is not None
    assert reported != key
    assert reported.startswith("stores/" + "s" * 200)
    other = key_of(data_key, "!key another\n!text\ngarbage")
    assert other == reported


@pytest.mark.parametrize("data_key", ["a_b", "_", "a_-b", "a___"])
def test_an_entry_of_somebody_else_has_no_key(data_key: str) -> None:
    assert key_of(data_key, "x") is None

"""Namespaces: their forms as text and bytes, which stay for ever, and their order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.coders import BytesCoder, CoderError, JsonCoder, Utf8Coder
from milepost.state.dialects.beam import (
    GlobalWindow,
    GlobalWindowCoder,
    IntervalWindowCoder,
    StateNamespace,
    StateNamespaces,
)
from milepost.state.dialects.beam.namespaces import WindowNamespace
from milepost.state.errors import InvalidUse, NotDeterministic
from tests.client.state.dialects.beam.conftest import WINDOWS, at, window

GLOBAL = StateNamespaces.global_namespace()
WINDOW = StateNamespaces.window(WINDOWS, window(1, 87.392))
TRIGGER = StateNamespaces.window_and_trigger(WINDOWS, window(1, 87.392), 57)
GLOBAL_WINDOW = StateNamespaces.window(GlobalWindowCoder(), GlobalWindow())
GLOBAL_TRIGGER = StateNamespaces.window_and_trigger(GlobalWindowCoder(), GlobalWindow(), 12)
namespaces = st.one_of(
    st.just(GLOBAL),
    st.binary(max_size=3).map(lambda data: StateNamespaces.window(BytesCoder(), data)),
    st.tuples(st.binary(max_size=3), st.integers(0, 2**31 - 1)).map(
        lambda both: StateNamespaces.window_and_trigger(BytesCoder(), *both)
    ),
)


def test_the_forms_are_for_ever() -> None:
    """State that was written under these keys is found under no others."""
    assert [one.string_key for one in (GLOBAL, WINDOW, TRIGGER, GLOBAL_WINDOW, GLOBAL_TRIGGER)] == [
        "/",
        "/gAAAAAU1fwCAAAAAAA9CQA/",
        "/gAAAAAU1fwCAAAAAAA9CQA/1L/",
        "//",
        "//C/",
    ]
    assert [one.key.hex() for one in (GLOBAL, GLOBAL_WINDOW, GLOBAL_TRIGGER)] == ["00", "01000100", "010001010000000c"]
    window_bytes = "8000ff00ff00ff05357f00ff8000ff00ff00ff00ff0f4240"
    assert WINDOW.key.hex() == f"01{window_bytes}000100"
    assert TRIGGER.key.hex() == f"01{window_bytes}00010100000039"


@given(one=namespaces)
def test_a_namespace_comes_back_from_both_forms(one: StateNamespace) -> None:
    assert StateNamespaces.from_string(one.string_key, BytesCoder()) == one
    assert StateNamespaces.from_bytes(one.key, BytesCoder()) == one


@given(one=namespaces, other=namespaces)
def test_namespaces_are_equal_as_their_forms_are_and_none_begins_with_another(
    one: StateNamespace, other: StateNamespace
) -> None:
    assert (one == other) == (one.key == other.key) == (one.string_key == other.string_key)
    if one == other:
        assert hash(one) == hash(other)
    else:
        assert not one.key.startswith(other.key)
    if isinstance(one, WindowNamespace) and isinstance(other, WindowNamespace):
        same_window = one.window_bytes == other.window_bytes
        assert one.key.startswith(other.window_prefix) == same_window
        if not same_window:
            assert (one.key < other.key) == (one.window_bytes < other.window_bytes)
    elif other != one:
        assert (one.key < other.key) == (one == GLOBAL)


def test_a_window_is_in_front_of_its_triggers_and_of_nothing_else() -> None:
    for of_window, of_trigger in ((WINDOW, TRIGGER), (GLOBAL_WINDOW, GLOBAL_TRIGGER)):
        assert of_trigger.string_key.startswith(of_window.string_key)
        assert of_trigger.key.startswith(of_window.prefix)
        assert of_window.key < of_trigger.key
        assert not GLOBAL.string_key.startswith(of_window.string_key)
        assert not GLOBAL.key.startswith(of_window.prefix)
    assert not WINDOW.key.startswith(GLOBAL_WINDOW.prefix)


def test_windows_sort_by_their_end() -> None:
    windows = [window(*times) for times in ((-5, -1), (0, 5), (1, 5), (-9, 6))]
    keys = [StateNamespaces.window(WINDOWS, one).key for one in windows]
    assert keys == sorted(keys)


def test_interval_windows() -> None:
    one = StateNamespaces.from_string(TRIGGER.string_key, IntervalWindowCoder())
    assert one == TRIGGER
    assert isinstance(one, WindowNamespace)
    assert one.window == window(1, 87.392)
    assert one.window.max_timestamp() == at(87.391999)
    assert at(0) < GlobalWindow().max_timestamp()
    wrong: list[Any] = [window(5, 5), window(5, 4), GlobalWindow()]
    for refused in wrong:
        with pytest.raises(CoderError):
            StateNamespaces.window(WINDOWS, refused)
    with pytest.raises(CoderError):
        StateNamespaces.window(GlobalWindowCoder(), wrong[0])


@pytest.mark.parametrize(
    "text",
    ["", "x", "/x", "//x", "/*/", "/YQ==/", "/YQ/0", "/YQ/01/", "/YQ/l/", "/YR/", "/YQ/ZZZZZZZ/", "/YQ/1/2/", "/Y/"],
)
def test_text_that_is_no_namespace(text: str) -> None:
    with pytest.raises(CoderError, match="no namespace"):
        StateNamespaces.from_string(text, Utf8Coder())


@pytest.mark.parametrize(
    "data", [b"", b"\x02", b"\0\0", b"\x01", b"\x01a\0\x01", b"\x01a\0\x01\x01\0", b"\x01a\0\x01\x01\xff\xff\xff\xff"]
)
def test_bytes_that_are_no_namespace(data: bytes) -> None:
    with pytest.raises(CoderError):
        StateNamespaces.from_bytes(data, BytesCoder())


def test_a_window_of_another_coder() -> None:
    with pytest.raises(CoderError):
        StateNamespaces.from_string("/YQ/", WINDOWS)
    with pytest.raises(CoderError):
        StateNamespaces.from_string("/YQ/", GlobalWindowCoder())


def test_what_is_refused() -> None:
    with pytest.raises(NotDeterministic, match="JsonCoder"):
        StateNamespaces.window(JsonCoder(), {})
    for index in (-1, 1 << 31):
        with pytest.raises(InvalidUse, match="triggers"):
            StateNamespaces.window_and_trigger(WINDOWS, window(0, 1), index)

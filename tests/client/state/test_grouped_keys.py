"""Keys behind their group: a range of groups is a range of keys, and the entries of a key lie side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.errors import CoderError
from milepost.state.grouped_keys import entries_of, range_of_groups, split_entry, with_group, without_group
from milepost.state.key_groups import MOST_KEY_GROUPS, KeyGroups

COUNTS = st.sampled_from([1, 2, 7, 128, 300, MOST_KEY_GROUPS])
KEYS = st.binary(max_size=6) | st.lists(st.sampled_from([b"\0", b"\1", b"\xff", b"a"]), max_size=4).map(b"".join)


def test_the_layout_is_for_ever() -> None:
    groups = KeyGroups(300)
    assert (with_group(groups, b"JFK"), groups.group(b"JFK")) == (b"\x00\x77JFK", 0x77)
    assert entries_of(groups, b"J\0K") == groups.group(b"J\0K").to_bytes(2, "big") + b"J\0\xffK\0\1"


@given(count=COUNTS, key=KEYS, rest=KEYS)
def test_what_was_put_together_is_taken_apart(count: int, key: bytes, rest: bytes) -> None:
    groups = KeyGroups(count)
    assert without_group(with_group(groups, key)) == (groups.group(key), key)
    assert split_entry(entries_of(groups, key) + rest) == (groups.group(key), key, rest)


@given(count=COUNTS, key=KEYS, data=st.data())
def test_a_range_of_groups_is_a_range_of_keys(count: int, key: bytes, data: st.DataObject) -> None:
    groups = KeyGroups(count)
    first = data.draw(st.integers(0, count))
    some = range(first, data.draw(st.integers(first, count)))
    start, end = range_of_groups(some)
    for kept in (with_group(groups, key), entries_of(groups, key) + key):
        assert (start <= kept < end) == (groups.group(key) in some)


@given(count=COUNTS, one=KEYS, other=KEYS, rest=KEYS)
def test_no_entry_of_one_key_begins_as_those_of_another(count: int, one: bytes, other: bytes, rest: bytes) -> None:
    groups = KeyGroups(count)
    assert (entries_of(groups, other) + rest).startswith(entries_of(groups, one)) == (one == other)


@pytest.mark.parametrize("damaged", [b"", b"\0"])
def test_what_has_no_group_is_refused(damaged: bytes) -> None:
    for take_apart in (without_group, split_entry):
        with pytest.raises(CoderError, match="two bytes of its group"):
            take_apart(damaged)


def test_an_entry_without_an_end_is_refused() -> None:
    with pytest.raises(CoderError, match="no end"):
        split_entry(b"\0\0abc")


@pytest.mark.parametrize("groups", [range(3, 2), range(-1, 2), range(0, 4, 2)])
def test_groups_that_are_not_side_by_side_are_refused(groups: range) -> None:
    with pytest.raises(ValueError, match="side by side"):
        range_of_groups(groups)

"""Key groups: every key is in one, every group has one task, and a range of groups is a range of keys."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.errors import CoderError
from milepost.state.key_groups import (
    MOST_KEY_GROUPS,
    KeyGroups,
    entries_of,
    range_of_groups,
    split_entry,
    with_group,
    without_group,
)

COUNTS = st.integers(1, 512)
FEW_COUNTS = st.sampled_from([1, 2, 7, 128, 300, MOST_KEY_GROUPS])
KEYS = st.binary(max_size=6) | st.lists(st.sampled_from([b"\0", b"\1", b"\xff", b"a"]), max_size=4).map(b"".join)


def test_the_group_of_a_key_is_for_ever() -> None:
    """These numbers are what Spark's ``crc32(key) % 128`` gives; another hash would lose the state of every key."""
    groups = KeyGroups()
    assert [groups.group(key) for key in (b"", b"JFK", b"EWR", bytes(8))] == [0, 31, 114, 105]


@pytest.mark.parametrize("form", ["key-{}", "{:08d}", "{0}/{0}"])
def test_keys_that_count_up_are_spread_evenly(form: str) -> None:
    groups = KeyGroups()
    found = Counter(groups.group(form.format(number).encode()) for number in range(12_800))
    assert set(found) == set(range(128))
    assert max(found.values()) < 200


@given(count=COUNTS, data=st.data())
def test_every_group_has_one_task(count: int, data: st.DataObject) -> None:
    groups = KeyGroups(count)
    tasks = data.draw(st.integers(1, count))
    ranges = [groups.groups_of(task, tasks) for task in range(tasks)]
    assert [group for one in ranges for group in one] == list(range(count))
    assert [groups.task_of(group, tasks) for group in range(count)] == [
        task for task, one in enumerate(ranges) for _ in one
    ]
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


@given(count=COUNTS, data=st.data())
def test_another_number_of_tasks_takes_over_every_group_from_who_had_it(count: int, data: st.DataObject) -> None:
    groups = KeyGroups(count)
    before, after = data.draw(st.integers(1, count)), data.draw(st.integers(1, count))
    taken = [groups.moved(task, after, before) for task in range(after)]
    assert [group for one in taken for part in one.values() for group in part] == list(range(count))
    assert all(groups.task_of(group, before) == task for one in taken for task, part in one.items() for group in part)
    assert all(part for one in taken for part in one.values())


@pytest.mark.parametrize("count", [0, -1, 32769])
def test_a_count_without_sense_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="key groups, not"):
        KeyGroups(count)


def test_tasks_without_groups_are_refused() -> None:
    groups = KeyGroups(4)
    for refused in (
        lambda: groups.groups_of(0, 5),
        lambda: groups.groups_of(2, 2),
        lambda: groups.groups_of(-1, 2),
        lambda: groups.task_of(4, 2),
        lambda: groups.task_of(0, 0),
    ):
        with pytest.raises(ValueError, match=r"key groups are for|there is no"):
            refused()


def test_the_layout_is_for_ever() -> None:
    groups = KeyGroups(300)
    assert (with_group(groups, b"JFK"), groups.group(b"JFK")) == (b"\x00\x77JFK", 0x77)
    assert entries_of(groups, b"J\0K") == groups.group(b"J\0K").to_bytes(2, "big") + b"J\0\xffK\0\1"


@given(count=FEW_COUNTS, key=KEYS, rest=KEYS)
def test_what_was_put_together_is_taken_apart(count: int, key: bytes, rest: bytes) -> None:
    groups = KeyGroups(count)
    assert without_group(with_group(groups, key)) == (groups.group(key), key)
    assert split_entry(entries_of(groups, key) + rest) == (groups.group(key), key, rest)


@given(count=FEW_COUNTS, key=KEYS, data=st.data())
def test_a_range_of_groups_is_a_range_of_keys(count: int, key: bytes, data: st.DataObject) -> None:
    groups = KeyGroups(count)
    first = data.draw(st.integers(0, count))
    some = range(first, data.draw(st.integers(first, count)))
    start, end = range_of_groups(some)
    for kept in (with_group(groups, key), entries_of(groups, key) + key):
        assert (start <= kept < end) == (groups.group(key) in some)


@given(count=FEW_COUNTS, one=KEYS, other=KEYS, rest=KEYS)
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

"""Key groups: every key is in one, every group has one task, and any number of tasks can follow any other."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.key_groups import KeyGroups

COUNTS = st.integers(1, 512)


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

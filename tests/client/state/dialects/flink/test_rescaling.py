"""Any number of tasks goes on from any other: no key is lost or doubled, and no more is read than is taken over."""

from __future__ import annotations

import random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.state.coders import FixedIntCoder, Utf8Coder
from milepost.state.dialects.flink import (
    Checkpoint,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorTask,
    ValueStateDescriptor,
    restoring,
)
from milepost.state.dialects.flink.restoring import even_split
from milepost.state.errors import Incompatible, StateDamaged
from milepost.state.key_groups import KeyGroups
from milepost.state.store import MemoryEngine, MemoryFiles
from milepost.state.store.format import files as state_files
from tests.client.state.dialects.flink.conftest import Clock, Tasks, task_of
from tests.client.state.support.failing_files import FailingFiles

NUMBER = FixedIntCoder(8)
COUNTS = ValueStateDescriptor("counts", NUMBER, default=0)
WORDS = ListStateDescriptor("words", Utf8Coder())
LEGS = MapStateDescriptor("legs", Utf8Coder(), NUMBER)
SPLIT = ListStateDescriptor("split", Utf8Coder())
UNION = ListStateDescriptor("union", Utf8Coder())
RULES = MapStateDescriptor("rules", Utf8Coder(), NUMBER)


def write(opened: list[OperatorTask], keys: list[str]) -> None:
    """Give each key one more of everything, and each task something of its own."""
    for key in keys:
        task = task_of(opened, key)
        counts = task.keyed_state.value_state(COUNTS)
        counts.update((counts.value() or 0) + 1)
        task.keyed_state.list_state(WORDS).add_all([key, "x"])
        task.keyed_state.map_state(LEGS).put_all({key: 1, "y": 2})
    for number, task in enumerate(opened):
        task.operator_state.list_state(SPLIT).add_all([f"{len(opened)}-{number}-{n}" for n in range(number % 3)])
        union = task.operator_state.union_list_state(UNION)
        union.update([f"{number}", "u"] if number % 2 else [])
        task.operator_state.broadcast_state(RULES).put(f"of {len(opened)}", len(opened))


def check(
    opened: list[OperatorTask], times: dict[str, int], split: list[str], union: list[str], rules: list[int]
) -> None:
    """Hold that all tasks together have everything once, and each of them its share."""
    states = [task.keyed_state.value_state(COUNTS) for task in opened]
    found = [key for task in opened for key in task.keyed_state.keys("counts")]
    assert sorted(found) == sorted(times)
    for key, count in times.items():
        task = task_of(opened, key)
        assert states[opened.index(task)].value() == count
        assert task.keyed_state.list_state(WORDS).get() == [key, "x"] * count
        assert dict(task.keyed_state.map_state(LEGS).items()) == {key: 1, "y": 2}
    pieces = [task.operator_state.list_state(SPLIT).get() for task in opened]
    assert [word for piece in pieces for word in piece] == split
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
    for task in opened:
        assert task.operator_state.union_list_state(UNION).get() == union
        assert sorted(task.operator_state.broadcast_state(RULES).values()) == sorted(rules)


def of_split(opened: list[OperatorTask]) -> list[str]:
    """Return the elements of the list that is split, as the tasks have them."""
    return [word for task in opened for word in task.operator_state.list_state(SPLIT).get()]


def of_union(count: int) -> list[str]:
    """Return what `write` puts into the list of which every task gets all."""
    return [word for number in range(count) if number % 2 for word in (str(number), "u")]


@pytest.mark.parametrize("part", [200, 1 << 20])
def test_from_eight_to_three_to_thirteen(tasks: Tasks, part: int) -> None:
    """With small parts, what is taken over is committed in between, and comes to the same."""
    keys = [f"key {number}" for number in range(60)]
    times: dict[str, int] = {}
    split: list[str] = []
    counts: list[int] = []
    with patch.object(restoring, "PART_BYTES", part):
        for count in (8, 3, 13):
            opened = tasks.open_all(count)
            if counts:
                check(opened, times, split, of_union(counts[-1]), counts)
            some = keys[count:]
            write(opened, some)
            times.update({key: times.get(key, 0) + 1 for key in some})
            split, counts = of_split(opened), [*counts, count]
            made = tasks.checkpoint(opened)
            if count == 3:
                assert (made.operators["operator"][0].version > 1) == (part == 200)
            tasks.close()
        opened = tasks.open_all(13)
        assert {key: task_of(opened, key).keyed_state.value_state(COUNTS).value() for key in times} == times


@settings(max_examples=15, deadline=None)
@given(
    counts=st.lists(st.integers(1, 16), min_size=2, max_size=3),
    words=st.lists(st.lists(st.text("ab\0", max_size=3), unique=True, max_size=8), min_size=3, max_size=3),
)
def test_from_any_number_to_any_other(counts: list[int], words: list[list[str]]) -> None:
    tasks = Tasks(FailingFiles(MemoryFiles()), MemoryEngine, Clock())
    groups = KeyGroups(16)
    times: dict[str, int] = {}
    split: list[str] = []
    for before, count, keys in zip([0, *counts], counts, words, strict=False):
        opened = tasks.open_all(count, key_groups=groups)
        counted = [task.keyed_state.value_state(COUNTS) for task in opened]
        if before:
            found = sorted(key for task in opened for key in task.keyed_state.keys("counts"))
            assert found == sorted(times)
            if count != before:
                pieces = [task.operator_state.list_state(SPLIT).get() for task in opened]
                assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
            assert of_split(opened) == split
        for key in keys:
            number = groups.task_of(groups.group(key.encode()), count)
            opened[number].keyed_state.current_key = key
            assert counted[number].value() == times.get(key, 0)
            times[key] = times.get(key, 0) + 1
            counted[number].update(times[key])
            opened[number].operator_state.list_state(SPLIT).add(key)
        split = of_split(opened)
        tasks.checkpoint(opened)
        tasks.close()


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=9), count=st.integers(1, 9))
def test_even_split(lengths: list[int], count: int) -> None:
    """Every element goes to one task, in order, and no task has two more than another."""
    pieces = [list(even_split(lengths, task, count)) for task in range(count)]
    elements = [(number, place) for piece in pieces for number, some in piece for place in some]
    assert elements == [(number, place) for number, length in enumerate(lengths) for place in range(length)]
    sizes = [sum(len(some) for _, some in piece) for piece in pieces]
    assert max(sizes) - min(sizes) <= 1


def test_no_more_is_read_than_is_taken_over(tasks: Tasks) -> None:
    """One of 64 tasks reads about a 64th of what the one before it wrote, and not all."""
    task = tasks.open()
    state = task.keyed_state.value_state(ValueStateDescriptor("texts", Utf8Coder()))
    source = random.Random(7)
    for number in range(4000):
        task.keyed_state.current_key = f"{number:05d}"
        state.update(f"{source.getrandbits(800):0200x}")
    with patch.object(state_files, "BATCH_BYTES", 4000), patch.object(state_files, "_FIRST_READ", 1024):
        tasks.checkpoint([task])
        written = tasks.files.bytes_written
        tasks.files.bytes_read = 0
        later = tasks.open(5, 64)
        later.keyed_state.value_state(ValueStateDescriptor("texts", Utf8Coder()))
        assert len(list(later.keyed_state.keys("texts"))) > 40
        assert tasks.files.bytes_read < written / 4, "the head, which tells of all record batches, and a few of these"


def test_only_tasks_that_have_something_are_read(tasks: Tasks) -> None:
    opened = tasks.open_all(8)
    write(opened, [f"key {number}" for number in range(20)])
    for task in opened:
        task.operator_state.drop("union")
        task.operator_state.drop("split")
    made = tasks.checkpoint(opened)
    read: list[int] = []
    original = restoring.Takeover._reader

    def noted(self: restoring.Takeover, number: int) -> object:
        read.append(number)
        return original(self, number)

    with patch.object(restoring.Takeover, "_reader", noted):
        tasks.open(1, 3)
    groups = KeyGroups(made.operators["operator"][0].key_groups)
    assert set(read) == {*groups.moved(1, 3, 8), 1}, "those whose groups it takes over, and one for what all have alike"


def test_a_checkpoint_that_does_not_fit_is_refused(tasks: Tasks) -> None:
    tasks.checkpoint([tasks.open(key_groups=KeyGroups(16))])
    with pytest.raises(Incompatible, match="in 16 key groups, and not in 128"):
        tasks.open()
    with pytest.raises(Incompatible, match="no operator 'other', but operator"):
        OperatorTask(tasks.files, "other", 0, 1, restored=tasks.published)


@pytest.mark.parametrize("count", [1, 2])
def test_a_task_that_has_less_than_it_told_is_damaged(tasks: Tasks, count: int) -> None:
    task = tasks.open()
    task.operator_state.union_list_state(UNION).add_all(["a", "b"])
    told = task.snapshot(1, 0)
    forged = Checkpoint.of([type(told)(**{**vars(told), "lists": {"operator:union": 3}})])
    with pytest.raises(StateDamaged, match="2 of the 3 elements"):
        tasks.open(0, count, restored=forged)

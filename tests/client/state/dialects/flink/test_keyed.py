"""Keyed state: each access pattern of Flink's page "Working with State", over both kinds of engine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from milepost.state.coders import FixedIntCoder, FloatCoder, JsonCoder, TupleCoder, Utf8Coder
from milepost.state.dialects.flink import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorTask,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from milepost.state.errors import Incompatible, InvalidUse
from milepost.state.key_groups import KeyGroups
from tests.client.state.dialects.flink.conftest import Tasks

NUMBER = FixedIntCoder(8)
TTL = StateTtlConfig(timedelta(seconds=1))


class Average(AggregateFunction[float, tuple[float, int], float]):
    """The average of numbers, whose accumulator is their sum and their count."""

    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]


def reopened(tasks: Tasks, task: OperatorTask) -> OperatorTask:
    """Publish what a task has, and return one that goes on from it."""
    tasks.checkpoint([task])
    task.close()
    return tasks.open()


def test_value_state(tasks: Tasks) -> None:
    counts = ValueStateDescriptor("counts", NUMBER, default=0)
    task = tasks.open()
    state = task.keyed_state.value_state(counts)
    for key in ("JFK", "EWR", "JFK"):
        task.keyed_state.current_key = key
        value = state.value()
        assert value is not None
        state.update(value + 1)
    task = reopened(tasks, task)
    state = task.keyed_state.value_state(counts)
    found = {}
    for key in ("JFK", "EWR", "LGA"):
        task.keyed_state.current_key = key
        found[task.keyed_state.current_key] = state.value()
    assert found == {"JFK": 2, "EWR": 1, "LGA": 0}
    task.keyed_state.current_key = "JFK"
    state.clear()
    assert state.value() == 0
    task.keyed_state.current_key = "EWR"
    state.update(None)
    assert state.value() == 0
    assert list(task.keyed_state.keys("counts")) == []


def test_a_default_is_a_copy_for_each_reader(tasks: Tasks) -> None:
    task = tasks.open()
    state = task.keyed_state.value_state(ValueStateDescriptor("document", JsonCoder(), default={"seen": []}))
    task.keyed_state.current_key = "a"
    document = state.value()
    assert document is not None
    document["seen"].append(1)
    assert state.value() == {"seen": []}


def test_list_state(tasks: Tasks) -> None:
    words = ListStateDescriptor("words", Utf8Coder())
    task = tasks.open()
    state = task.keyed_state.list_state(words)
    task.keyed_state.current_key = "a"
    assert state.get() == []
    state.add("x")
    state.add_all(["y", ""])
    task.keyed_state.current_key = "b"
    state.update(["other"])
    state.add_all([])
    task = reopened(tasks, task)
    state = task.keyed_state.list_state(words)
    task.keyed_state.current_key = "a"
    state.add("z")
    assert state.get() == ["x", "y", "", "z"]
    state.update(["only"])
    assert state.get() == ["only"]
    state.update([])
    assert state.get() == []
    task.keyed_state.current_key = "b"
    assert state.get() == ["other"]
    state.clear()
    assert (state.get(), list(task.keyed_state.keys("words"))) == ([], [])


def test_map_state(tasks: Tasks) -> None:
    legs = MapStateDescriptor("legs", Utf8Coder(), NUMBER)
    task = tasks.open()
    state = task.keyed_state.map_state(legs)
    for key in ("J", "JF", "JFK", "J\0F"):  # no entries of one key are those of another
        task.keyed_state.current_key = key
        assert state.is_empty()
        state.put_all({"b": 2, "a": len(key), "": 0})
    task = reopened(tasks, task)
    state = task.keyed_state.map_state(legs)
    assert set(task.keyed_state.keys("legs")) == {"J", "JF", "JFK", "J\0F"}
    task.keyed_state.current_key = "JFK"
    state.put("c", 3)
    state.remove("b")
    assert list(state.items()) == [("", 0), ("a", 3), ("c", 3)]
    assert (list(state.keys()), list(state.values())) == (["", "a", "c"], [0, 3, 3])
    assert [state.get(key) for key in ("a", "b")] == [3, None]
    assert [state.contains(key) for key in ("a", "b")] == [True, False]
    shown = state.items()
    state.clear()
    assert list(shown) == [("", 0), ("a", 3), ("c", 3)], "an iterator shows what was there when it was asked for"
    assert state.is_empty()
    task.keyed_state.current_key = "J"
    assert list(state.items()) == [("", 0), ("a", 1), ("b", 2)]


def test_reducing_state(tasks: Tasks) -> None:
    sums = ReducingStateDescriptor("sums", NUMBER, lambda one, other: one + other)
    task = tasks.open()
    state = task.keyed_state.reducing_state(sums)
    task.keyed_state.current_key = "a"
    assert state.get() is None
    state.add(3)
    state.add(4)
    task = reopened(tasks, task)
    state = task.keyed_state.reducing_state(sums)
    task.keyed_state.current_key = "a"
    state.add(5)
    assert state.get() == 12
    state.clear()
    assert state.get() is None


def test_aggregating_state(tasks: Tasks) -> None:
    averages = AggregatingStateDescriptor("averages", TupleCoder(FloatCoder(), NUMBER), Average())
    task = tasks.open()
    state = task.keyed_state.aggregating_state(averages)
    task.keyed_state.current_key = "a"
    assert state.get() is None
    state.add(1.0)
    state.add(2.0)
    task = reopened(tasks, task)
    state = task.keyed_state.aggregating_state(averages)
    task.keyed_state.current_key = "a"
    state.add(6.0)
    assert state.get() == 3.0
    state.clear()
    assert state.get() is None


def test_count_window_average(tasks: Tasks) -> None:
    """The example of the page: the average of every two values of a key, over a state that is cleared in between."""
    task = tasks.open()
    state = task.keyed_state.value_state(ValueStateDescriptor("average", TupleCoder(NUMBER, NUMBER), default=(0, 0)))
    collected = []
    for key, number in (("1", 3), ("1", 5), ("2", 1), ("1", 7), ("1", 4), ("1", 2)):
        task.keyed_state.current_key = key
        count, total = state.value() or (0, 0)
        state.update((count + 1, total + number))
        if count + 1 >= 2:
            collected.append((key, (total + number) // 2))
            state.clear()
    assert collected == [("1", 4), ("1", 5)]


def test_the_key_has_to_be_one_of_the_task(tasks: Tasks) -> None:
    task = tasks.open(1, 3)
    state = task.keyed_state.value_state(ValueStateDescriptor("counts", NUMBER))
    with pytest.raises(InvalidUse, match="no key is current"):
        state.value()
    groups = KeyGroups()
    others = next(str(n) for n in range(99) if groups.task_of(groups.group(str(n).encode()), 3) != 1)
    with pytest.raises(InvalidUse, match="this task has the groups 43 to 85"):
        task.keyed_state.current_key = others
    with pytest.raises(InvalidUse, match="no keyed state"):
        list(task.keyed_state.keys("nothing"))


def test_a_state_goes_on_as_what_it_is(tasks: Tasks) -> None:
    task = tasks.open()
    task.keyed_state.value_state(ValueStateDescriptor("counts", NUMBER))
    with pytest.raises(InvalidUse, match="another time to live"):
        task.keyed_state.value_state(ValueStateDescriptor("counts", NUMBER, ttl=TTL))
    task = reopened(tasks, task)
    for other in (
        lambda: task.keyed_state.list_state(ListStateDescriptor("counts", NUMBER)),
        lambda: task.keyed_state.map_state(MapStateDescriptor("counts", NUMBER, NUMBER)),
        lambda: task.keyed_state.value_state(ValueStateDescriptor("counts", NUMBER, ttl=TTL)),
    ):
        with pytest.raises(Incompatible, match="was written as 'value'"):
            other()
    task.keyed_state.drop("counts")
    task.keyed_state.list_state(ListStateDescriptor("counts", NUMBER))


def test_what_is_restored_and_not_registered_stays(tasks: Tasks) -> None:
    task = tasks.open()
    state = task.keyed_state.value_state(ValueStateDescriptor("counts", NUMBER))
    task.keyed_state.current_key = "a"
    state.update(5)
    task = reopened(tasks, reopened(tasks, task))
    state = task.keyed_state.value_state(ValueStateDescriptor("counts", NUMBER))
    task.keyed_state.current_key = "a"
    assert state.value() == 5


def test_what_makes_no_sense_is_refused(tasks: Tasks) -> None:
    with pytest.raises(InvalidUse, match="deterministic"):
        tasks.open(key_coder=JsonCoder())
    with pytest.raises(InvalidUse, match="deterministic"):
        MapStateDescriptor("map", JsonCoder(), NUMBER)
    for name in ("", "x" * 181):
        with pytest.raises(InvalidUse, match="1 to 180 bytes"):
            ValueStateDescriptor(name, NUMBER)
    with pytest.raises(InvalidUse, match="there is no task 3 of 3"):
        tasks.open(3, 3)
    with pytest.raises(InvalidUse, match="1 to 128 tasks"):
        tasks.open(0, 129)

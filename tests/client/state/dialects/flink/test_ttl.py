"""The time to live of keyed state: what Flink's ``StateTtlConfig`` says, over both kinds of engine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from milepost.state.cells.lifetime import Lifetime
from milepost.state.coders import CoderError, FixedIntCoder, Utf8Coder
from milepost.state.dialects.flink import (
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorTask,
    ReducingStateDescriptor,
    StateTtlConfig,
    UpdateType,
    ValueStateDescriptor,
    Visibility,
)
from milepost.state.errors import InvalidUse
from milepost.state.key_groups import KeyGroups
from tests.client.state.dialects.flink.conftest import Clock, Tasks

NUMBER = FixedIntCoder(8)


def config(**changed: Any) -> StateTtlConfig:
    """Return a time to live of 100 milliseconds."""
    return StateTtlConfig(timedelta(milliseconds=100), **changed)


def kept_keys(task: OperatorTask, name: str = "state") -> list[str]:
    """Return the keys that are still in the store, without looking at their time."""
    return sorted(task.keyed_state.keys(name))


def value_of(task: OperatorTask, ttl: StateTtlConfig) -> Any:
    """Return a state of one value, with ``a`` as the current key."""
    state = task.keyed_state.value_state(ValueStateDescriptor("state", NUMBER, ttl=ttl))
    task.keyed_state.current_key = "a"
    return state


def test_update_on_create_and_write(tasks: Tasks, clock: Clock) -> None:
    state = value_of(tasks.open(), config())
    state.update(1)
    clock.now += 60
    assert state.value() == 1
    clock.now += 39
    assert state.value() == 1
    clock.now += 1
    assert state.value() is None, "reading did not begin its life anew"
    state.update(2)
    clock.now += 60
    state.update(3)
    clock.now += 60
    assert state.value() == 3


def test_update_on_read_and_write(tasks: Tasks, clock: Clock) -> None:
    state = value_of(tasks.open(), config(update=UpdateType.ON_READ_AND_WRITE))
    state.update(1)
    for _ in range(5):
        clock.now += 99
        assert state.value() == 1
    clock.now += 100
    assert state.value() is None


@pytest.mark.parametrize("visibility", Visibility)
def test_visibility(tasks: Tasks, clock: Clock, visibility: Visibility) -> None:
    """What has expired is cleaned up on access; until then it may be seen, if that is asked for."""
    task = tasks.open()
    state = value_of(task, config(visibility=visibility))
    state.update(1)
    clock.now += 100
    assert kept_keys(task) == ["a"]
    assert state.value() == (1 if visibility is Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP else None)
    assert kept_keys(task) == []
    assert state.value() is None


def test_time_goes_on_over_a_restore(tasks: Tasks, clock: Clock) -> None:
    """The time is kept with the value, also under another number of tasks; how long it lives is not."""
    task = tasks.open()
    value_of(task, config()).update(1)
    tasks.checkpoint([task])
    clock.now += 150
    longer = StateTtlConfig(timedelta(milliseconds=151))
    groups = KeyGroups()
    for count in (1, 128):
        state = value_of(tasks.open(groups.task_of(groups.group(b"a"), count), count), longer)
        assert state.value() == 1
        clock.now += 1
        assert state.value() is None
        clock.now -= 1


def test_each_element_of_a_list_has_its_own_time(tasks: Tasks, clock: Clock) -> None:
    task = tasks.open()
    state = task.keyed_state.list_state(ListStateDescriptor("state", Utf8Coder(), config()))
    task.keyed_state.current_key = "a"
    for word in "xyz":
        state.add(word)
        clock.now += 40
    assert state.get() == ["y", "z"]
    state.update([*state.get(), "new"])
    clock.now += 99
    assert state.get() == ["y", "z", "new"]
    clock.now += 1
    assert (state.get(), kept_keys(task)) == ([], [])


def test_a_list_that_is_seen_once_more_or_renewed(tasks: Tasks, clock: Clock) -> None:
    task = tasks.open()
    task.keyed_state.current_key = "a"
    seen = config(visibility=Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    once_more = task.keyed_state.list_state(ListStateDescriptor("state", Utf8Coder(), seen))
    renewed = task.keyed_state.list_state(
        ListStateDescriptor("renewed", Utf8Coder(), config(update=UpdateType.ON_READ_AND_WRITE))
    )
    once_more.add("x")
    renewed.add("y")
    clock.now += 60
    once_more.add("z")
    assert renewed.get() == ["y"]
    clock.now += 60
    assert [once_more.get(), once_more.get()] == [["x", "z"], ["z"]]
    assert renewed.get() == ["y"]


def test_each_entry_of_a_map_has_its_own_time(tasks: Tasks, clock: Clock) -> None:
    task = tasks.open()
    state = task.keyed_state.map_state(MapStateDescriptor("state", Utf8Coder(), NUMBER, config()))
    task.keyed_state.current_key = "a"
    state.put_all({"x": 1, "y": 2})
    clock.now += 60
    state.put("y", 3)
    clock.now += 60
    assert not state.contains("x")
    state.put("x", 4)
    clock.now += 60
    assert list(state.items()) == [("x", 4)]
    clock.now += 60
    assert state.is_empty()
    assert kept_keys(task) == []


def test_what_has_expired_is_not_reduced_into(tasks: Tasks, clock: Clock) -> None:
    task = tasks.open()
    state = task.keyed_state.reducing_state(ReducingStateDescriptor("state", NUMBER, lambda a, b: a + b, config()))
    task.keyed_state.current_key = "a"
    state.add(1)
    clock.now += 60
    state.add(2)
    clock.now += 60
    assert state.get() == 3
    clock.now += 60
    state.add(4)
    assert state.get() == 4


def fill_values(task: OperatorTask, ttl: StateTtlConfig) -> Callable[[], object]:
    """Give twenty keys a value, and return what reads that of the current one."""
    state = task.keyed_state.value_state(ValueStateDescriptor("state", NUMBER, ttl=ttl))
    for number in range(20):
        task.keyed_state.current_key = str(number)
        state.update(number)
    return state.value


def fill_lists(task: OperatorTask, ttl: StateTtlConfig) -> Callable[[], object]:
    """Give twenty keys a list, and return what reads that of the current one."""
    state = task.keyed_state.list_state(ListStateDescriptor("state", NUMBER, ttl=ttl))
    for number in range(20):
        task.keyed_state.current_key = str(number)
        state.add_all([number, number])
    return state.get


FILLS = pytest.mark.parametrize("fill", [fill_values, fill_lists])


@FILLS
def test_incremental_clean_up(tasks: Tasks, clock: Clock, fill: Callable[..., Callable[[], object]]) -> None:
    """Each access looks at so many keys, goes on where it was over a commit, and begins again at the end."""
    task = tasks.open()
    read = fill(task, config(incremental=3))
    clock.now += 100
    task.keyed_state.current_key = "absent"
    for _ in range(3):
        read()
    some = kept_keys(task)
    assert 8 <= len(some) <= 14
    tasks.checkpoint([task])
    for _ in range(5):
        read()
    assert len(kept_keys(task)) < len(some)
    for _ in range(10):
        read()
    assert kept_keys(task) == []


@FILLS
def test_what_is_written_meanwhile_is_not_cleaned_up(
    tasks: Tasks, clock: Clock, fill: Callable[..., Callable[[], object]]
) -> None:
    task = tasks.open()
    read = fill(task, config(incremental=1))
    clock.now += 100
    task.keyed_state.current_key = "absent"
    read()  # looks at the store as it is now
    fill(task, config(incremental=1))
    task.keyed_state.current_key = "absent"
    for _ in range(50):
        read()
    assert len(kept_keys(task)) == 20


def test_incremental_clean_up_for_every_record(tasks: Tasks, clock: Clock) -> None:
    task = tasks.open()
    fill_values(task, config(incremental=5, for_every_record=True))
    clock.now += 100
    for number in range(12):
        task.keyed_state.current_key = str(number)
    assert kept_keys(task) == []


@FILLS
def test_clean_up_in_a_full_snapshot(tasks: Tasks, clock: Clock, fill: Callable[..., Callable[[], object]]) -> None:
    """No snapshot has what had expired before it."""
    for full, left in ((False, 20), (True, 0)):
        tasks.published = None
        task = tasks.open()
        fill(task, config(full_snapshot=full))
        tasks.checkpoint([task])
        clock.now += 100
        tasks.checkpoint([task])
        later = tasks.open()
        if fill is fill_values:
            later.keyed_state.value_state(ValueStateDescriptor("state", NUMBER, ttl=config()))
        else:
            later.keyed_state.list_state(ListStateDescriptor("state", NUMBER, config()))
        assert len(kept_keys(later)) == left


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidUse, match="a millisecond at least"):
        StateTtlConfig(timedelta(microseconds=999))
    for wrong in ({"incremental": -1}, {"for_every_record": True}):
        with pytest.raises(InvalidUse, match="one key at least"):
            config(**wrong)
    with pytest.raises(CoderError, match="eight bytes"):
        Lifetime.value(b"1234567")

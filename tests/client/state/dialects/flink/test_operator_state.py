"""Operator state, and the functions that have it: each access pattern of Flink's page "Working with State"."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from milepost.state.coders import FixedIntCoder, ListCoder, Utf8Coder
from milepost.state.dialects.flink import (
    Checkpointed,
    CheckpointedFunction,
    CheckpointListener,
    InitializationContext,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorStateDescriptor,
    SnapshotContext,
    StateTtlConfig,
    ValueStateDescriptor,
)
from milepost.state.errors import Incompatible, InvalidUse
from tests.client.state.dialects.flink.conftest import Tasks, task_of

NUMBER = FixedIntCoder(8)
WORDS = ListStateDescriptor("words", Utf8Coder())


class BufferingSink(CheckpointedFunction, CheckpointListener):
    """The example of the page: what is buffered is put into a list for each snapshot, and taken up from it."""

    def __init__(self, threshold: int = 10) -> None:
        self.threshold = threshold
        self.buffered: list[str] = []
        self.sent: list[str] = []
        self.told: list[tuple[str, int]] = []
        self.moments: list[SnapshotContext] = []
        self.restored: int | None = None

    def invoke(self, value: str) -> None:
        """Buffer a value, and send all once there are enough."""
        self.buffered.append(value)
        if len(self.buffered) >= self.threshold:
            self.sent += self.buffered
            self.buffered = []

    def initialize_state(self, context: InitializationContext) -> None:
        self.state = context.operator_state.list_state(WORDS)
        self.restored = context.restored_checkpoint
        if context.is_restored:
            self.buffered = self.state.get()

    def snapshot_state(self, context: SnapshotContext) -> None:
        self.moments.append(context)
        self.state.clear()
        self.state.add_all(self.buffered)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.told.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.told.append(("aborted", checkpoint_id))


class Offsets(Checkpointed[list[int]]):
    """A source of Flink's first releases: its state is the list of offsets that it reads."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.moments: list[tuple[int, int]] = []

    @property
    def descriptor(self) -> OperatorStateDescriptor[list[int]]:
        return OperatorStateDescriptor("offsets", ListCoder(NUMBER), split=self.split, merge=self.merge)

    @staticmethod
    def split(state: list[int], count: int) -> list[list[int]]:
        """Deal the offsets out."""
        return [state[number::count] for number in range(count)]

    @staticmethod
    def merge(states: Sequence[list[int]]) -> list[int]:
        """Put the offsets together."""
        return sorted(offset for state in states for offset in state)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        self.moments.append((checkpoint_id, timestamp))
        return self.offsets

    def restore_state(self, state: list[int]) -> None:
        self.offsets = state


def test_operator_state_with_a_default(tasks: Tasks) -> None:
    counts = OperatorStateDescriptor("count", NUMBER, default=7)
    task = tasks.open()
    state = task.operator_state.state(counts)
    assert (state.value(), state.is_set) == (7, False)
    state.update(8)
    tasks.checkpoint([task])
    state.update(9)
    assert state.value() == 9
    state = tasks.open().operator_state.state(counts)
    assert (state.value(), state.is_set) == (8, True)
    state.clear()
    assert state.value() == 7
    assert tasks.open(restored=None).operator_state.state(OperatorStateDescriptor("other", NUMBER)).value() is None


def test_even_split_list_state(tasks: Tasks) -> None:
    all_tasks = tasks.open_all(3)
    for number, task in enumerate(all_tasks):
        task.operator_state.list_state(WORDS).add_all([f"{number}{letter}" for letter in "abcd"[: number + 2]])
    tasks.checkpoint(all_tasks)
    two = [task.operator_state.list_state(WORDS).get() for task in tasks.open_all(2)]
    assert two == [["0a", "0b", "1a", "1b"], ["1c", "2a", "2b", "2c", "2d"]]
    same = [task.operator_state.list_state(WORDS).get() for task in tasks.open_all(3)]
    assert same[0] == ["0a", "0b"], "the same number of tasks go on with what each had"


def test_union_list_state(tasks: Tasks) -> None:
    all_tasks = tasks.open_all(2)
    for number, task in enumerate(all_tasks):
        task.operator_state.union_list_state(WORDS).update([str(number), "x"])
    tasks.checkpoint(all_tasks)
    for count in (2, 5):  # under the same number of tasks as well
        for task in tasks.open_all(count):
            assert task.operator_state.union_list_state(WORDS).get() == ["0", "x", "1", "x"]
    kept = tasks.open_all(2)
    for number, task in enumerate(kept):
        state = task.operator_state.union_list_state(WORDS)
        state.update(state.get()[2 * number : 2 * number + 1])
    tasks.checkpoint(kept)
    assert tasks.open(0, 3).operator_state.union_list_state(WORDS).get() == ["0", "1"]


def test_broadcast_state(tasks: Tasks) -> None:
    rules = MapStateDescriptor("rules", Utf8Coder(), NUMBER)
    all_tasks = tasks.open_all(2)
    for task in all_tasks:
        state = task.operator_state.broadcast_state(rules)
        state.put_all({"b": 2, "a": 1})
    tasks.checkpoint(all_tasks)
    for count in (2, 5, 1):
        for task in tasks.open_all(count):
            state = task.operator_state.broadcast_state(rules)
            assert list(state.items()) == [("a", 1), ("b", 2)]
    state.remove("a")
    assert (state.get("a"), state.contains("b")) == (None, True)
    state.clear()
    assert state.is_empty()


def test_checkpointed_function(tasks: Tasks) -> None:
    """Flink's ``BufferingSink``, with its buffers split over more tasks."""
    sinks = [BufferingSink(threshold=4), BufferingSink()]
    opened = [tasks.open(number, 2, function=sink) for number, sink in enumerate(sinks)]
    for word in "abcdef":
        sinks[0].invoke(word)
    assert (sinks[0].sent, sinks[0].restored) == (["a", "b", "c", "d"], None)
    tasks.checkpoint(opened)
    sinks[0].invoke("after")
    assert sinks[0].moments == [SnapshotContext(checkpoint_id=1, timestamp=1000)]
    later = [BufferingSink() for _ in range(3)]
    for number, sink in enumerate(later):
        tasks.open(number, 3, function=sink)
    assert [(sink.buffered, sink.restored) for sink in later] == [([], 1), (["e"], 1), (["f"], 1)]


def test_a_list_that_stays_is_not_written_again(tasks: Tasks) -> None:
    sink = BufferingSink(threshold=10_000)
    task = tasks.open(function=sink)
    sink.buffered = [f"{number:060d}" for number in range(2000)]
    tasks.checkpoint([task])
    tasks.files.bytes_written = 0
    sink.invoke("one more")
    tasks.checkpoint([task])
    assert 0 < tasks.files.bytes_written < 5000
    sink.buffered = sink.buffered[-2:]
    tasks.checkpoint([task])
    later = BufferingSink()
    tasks.open(function=later)
    assert later.buffered == sink.buffered


def test_checkpoint_listener(tasks: Tasks) -> None:
    sink = BufferingSink()
    task = tasks.open(function=sink)
    tasks.checkpoint([task])
    task.notify_checkpoint_complete(1)
    task.notify_checkpoint_aborted(2)
    assert sink.told == [("complete", 1), ("aborted", 2)]
    silent = tasks.open(function=Offsets())
    silent.notify_checkpoint_complete(1)
    silent.notify_checkpoint_aborted(2)


def test_checkpointed(tasks: Tasks) -> None:
    """``Checkpointed``, whose whole state is split and merged by its own functions."""
    sources = [Offsets(), Offsets()]
    opened = [tasks.open(number, 2, function=source) for number, source in enumerate(sources)]
    sources[0].offsets, sources[1].offsets = [5, 3], [4]
    tasks.checkpoint(opened)
    assert sources[0].moments == [(1, 1000)]
    for count, expected in ((2, [[5, 3], [4]]), (3, [[3], [4], [5]]), (1, [[3, 4, 5]])):
        later = [Offsets() for _ in range(count)]
        for number, source in enumerate(later):
            tasks.open(number, count, function=source)
        assert [source.offsets for source in later] == expected


def test_split_and_merge_of_a_number(tasks: Tasks) -> None:
    count = OperatorStateDescriptor("count", NUMBER, 0, lambda state, n: [state, *[0] * (n - 1)], sum)
    opened = tasks.open_all(3)
    for number, task in enumerate(opened[:2]):  # the third never updates it, and takes no part
        task.operator_state.state(count).update(10 + number)
    tasks.checkpoint(opened)
    assert [task.operator_state.state(count).value() for task in tasks.open_all(2)] == [21, 0]
    task = tasks.open(0, 2)
    with pytest.raises(Incompatible, match="needs split and merge"):
        task.operator_state.state(OperatorStateDescriptor("count", NUMBER))
    with pytest.raises(Incompatible, match="split into 1 values for 2 tasks"):
        task.operator_state.state(OperatorStateDescriptor("count", NUMBER, 0, lambda state, _: [state], sum))
    with pytest.raises(Incompatible, match="neither registered nor dropped: count"):
        task.snapshot(2, 0)
    task.operator_state.drop("count")
    assert task.snapshot(2, 0).states == {}


def test_keyed_and_operator_state_are_one_snapshot(tasks: Tasks) -> None:
    seen, words = ValueStateDescriptor("seen", NUMBER, 0), ListStateDescriptor("seen", Utf8Coder())
    opened = tasks.open_all(2)
    for key in "abcdefgh":
        task = task_of(opened, key)
        task.keyed_state.value_state(seen).update(1)
        task.operator_state.list_state(words).add(key)
    made = tasks.checkpoint(opened)
    assert [one.version for one in made.operators["operator"]] == [1, 1]
    later = tasks.open_all(3)
    assert sorted(word for task in later for word in task.operator_state.list_state(words).get()) == list("abcdefgh")
    assert [task_of(later, key).keyed_state.value_state(seen).value() for key in "abcdefgh"] == [1] * 8


def test_a_state_goes_on_with_its_redistribution(tasks: Tasks) -> None:
    task = tasks.open()
    task.operator_state.list_state(WORDS).add("a")
    tasks.checkpoint([task])
    for count in (1, 2):
        with pytest.raises(Incompatible, match="'split list', and cannot go on as 'union list'"):
            tasks.open(0, count).operator_state.union_list_state(WORDS)


def test_an_operator_list_that_is_not_registered_stays(tasks: Tasks) -> None:
    task = tasks.open()
    task.operator_state.list_state(WORDS).add_all(["a", "b"])
    tasks.checkpoint([task])
    tasks.checkpoint([tasks.open()])
    tasks.checkpoint(tasks.open_all(2))
    assert [task.operator_state.list_state(WORDS).get() for task in tasks.open_all(2)] == [["a"], ["b"]]
    task = tasks.open(0, 2)
    task.operator_state.drop("words")
    assert task.operator_state.list_state(WORDS).get() == []


def test_what_makes_no_sense_is_refused(tasks: Tasks) -> None:
    with pytest.raises(InvalidUse, match="by two functions, or by none"):
        OperatorStateDescriptor("count", NUMBER, merge=sum)
    task = tasks.open()
    with pytest.raises(InvalidUse, match="no time to live"):
        task.operator_state.list_state(ListStateDescriptor("a", NUMBER, StateTtlConfig(timedelta(1))))
    with pytest.raises(InvalidUse, match="CheckpointedFunction or Checkpointed"):
        tasks.open(function=object())
    task.snapshot(4, 0)
    for id in (4, 3):
        with pytest.raises(InvalidUse, match="ids of checkpoints grow"):
            task.snapshot(id, 0)

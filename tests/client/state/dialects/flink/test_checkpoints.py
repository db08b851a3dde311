"""Checkpoints as documents: whole, proved, and of tasks that belong together."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.coders import FixedIntCoder
from milepost.state.dialects.flink import Checkpoint, OperatorTask, TaskSnapshot, ValueStateDescriptor, discard
from milepost.state.errors import InvalidUse, StateDamaged, VersionNotFound
from milepost.state.store import StateStoreId
from tests.client.state.dialects.flink.conftest import Tasks


def told(task: int = 0, tasks: int = 2, operator: str = "counts", number: int = 0) -> TaskSnapshot:
    """Return what a task tells."""
    return TaskSnapshot(
        operator=operator,
        checkpoint=4,
        timestamp=1234,
        task=task,
        tasks=tasks,
        key_groups=128,
        store=StateStoreId(number, task, f"{operator}-{tasks}-0"),
        version=3,
        id="0" * 32,
        states={"keyed:counts": "value with ttl", "operator:words": "split list"},
        lists={"operator:words": 5},
    )


def test_a_checkpoint_has_every_task_once() -> None:
    made = Checkpoint.of([told(1), told(0), told(0, 1, "other", 1)])
    assert {name: [one.task for one in tasks] for name, tasks in made.operators.items()} == {
        "counts": [0, 1],
        "other": [0],
    }
    assert (made.id, made.timestamp) == (4, 1234)
    assert made.states_of("counts") == {"keyed:counts": "value with ttl", "operator:words": "split list"}
    for wrong, message in (
        ([], "not of 0"),
        ([told(0)], "these told of it: \\[0\\]"),
        ([told(0), told(1), told(1)], "these told of it: \\[0, 1, 1\\]"),
        ([told(0), replace(told(1), checkpoint=5)], "not of 2"),
        ([told(0), replace(told(1), tasks=3)], "do not agree"),
        ([told(0), replace(told(1), key_groups=64)], "do not agree"),
        ([told(0), replace(told(1), states={"keyed:counts": "value"})], "different kinds of the state keyed:counts"),
        ([told(0), replace(told(1), store=told(0).store)], "the same store"),
    ):
        with pytest.raises(InvalidUse, match=message):
            Checkpoint.of(wrong)


def test_a_document_comes_back() -> None:
    made = Checkpoint.of([told(0), told(1)])
    assert Checkpoint.from_json(made.to_json()) == made
    assert Checkpoint.from_json(made.to_json()).to_json() == made.to_json()
    assert pickle.loads(pickle.dumps(told())) == told()
    assert TaskSnapshot.from_document(json.loads(json.dumps(told().to_document()))) == told()


@given(data=st.data())
def test_a_changed_document_is_never_another_checkpoint(data: st.DataObject) -> None:
    """It is damaged, or the change meant nothing, such as a 0 that became -0."""
    made = Checkpoint.of([told(0), told(1)])
    document = bytearray(made.to_json())
    place = data.draw(st.integers(0, len(document) - 1))
    document[place] = data.draw(st.integers(0x21, 0x7E).filter(lambda byte: byte != document[place]))
    with suppress(StateDamaged):
        assert Checkpoint.from_json(bytes(document)) == made


def test_a_digit_of_an_id_that_changed_is_damaged() -> None:
    with pytest.raises(StateDamaged, match="it has another digest"):
        Checkpoint.from_json(Checkpoint.of([told(0), told(1)]).to_json().replace(b"00000000", b"00000001", 1))


@pytest.mark.parametrize("document", [b"", b"[]", b"1", b"{}", b'{"sha256": ""}', b"[" * 100_000, b"\xff"])
def test_what_is_no_document_is_damaged(document: bytes) -> None:
    with pytest.raises(StateDamaged):
        Checkpoint.from_json(document)


def test_old_stores_are_discarded_once_nobody_keeps_them(tasks: Tasks) -> None:
    counts = ValueStateDescriptor("counts", FixedIntCoder(8))
    opened = tasks.open_all(2)
    first = tasks.checkpoint(opened)
    second = tasks.checkpoint(opened)
    assert discard(tasks.files, first, [second]) == 0, "they are in the same stores"
    third = tasks.checkpoint(tasks.open_all(3))
    tasks.close()
    assert discard(tasks.files, second, [third]) == 4
    assert discard(tasks.files, second, [third]) == 0
    with pytest.raises(VersionNotFound):
        tasks.open(0, 2, restored=second)
    assert [list(task.keyed_state.keys("counts")) for task in tasks.open_all(3) if register(task, counts)] == [[]] * 3


def register(task: OperatorTask, counts: ValueStateDescriptor[int]) -> bool:
    """Register a state."""
    return task.keyed_state.value_state(counts) is not None

"""Whatever fails between a snapshot and its publication, tasks go on from what was published, with all of it."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from milepost.state.coders import FixedIntCoder, Utf8Coder
from milepost.state.dialects.flink import ListStateDescriptor, OperatorTask, ValueStateDescriptor, restoring
from milepost.state.errors import CommitUnknown, FilesError, StateDamaged, VersionNotFound, WriteUnknown
from milepost.state.store import MemoryEngine
from milepost.state.store.engines.engine import EngineFactory
from tests.client.state.dialects.flink.conftest import Tasks, task_of
from tests.client.state.support.failing_files import Crash, Failure

COUNTS = ValueStateDescriptor("counts", FixedIntCoder(8), default=0)
SEEN = ListStateDescriptor("seen", Utf8Coder())
KEYS = [str(number) for number in range(20)]


@pytest.fixture
def engines() -> EngineFactory:
    """What holds an open version, in memory: files fail alike below each."""
    return MemoryEngine


def count_all(opened: list[OperatorTask]) -> None:
    """Count every key once more, and note it in the list of its task."""
    for key in KEYS:
        task = task_of(opened, key)
        state = task.keyed_state.value_state(COUNTS)
        state.update((state.value() or 0) + 1)
        task.operator_state.list_state(SEEN).add(key)


def check(opened: list[OperatorTask], times: int) -> None:
    """Hold that every key was counted so often, and noted as often."""
    assert [task_of(opened, key).keyed_state.value_state(COUNTS).value() for key in KEYS] == [times] * len(KEYS)
    noted = [word for task in opened for word in task.operator_state.list_state(SEEN).get()]
    assert sorted(noted) == sorted(KEYS * times)


@pytest.mark.parametrize("failure", [one for one in Failure if one is not Failure.NONE])
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_crash_between_snapshot_and_publication(tasks: Tasks, failure: Failure, at: int) -> None:
    """Of three tasks, the one at the failpoint fails; at 3, all have committed, and nobody publishes."""
    opened = tasks.open_all(3)
    count_all(opened)
    tasks.checkpoint(opened)
    published = tasks.published
    count_all(opened)
    tasks.files.creations.extend([Failure.NONE] * at + [failure])
    told = []
    try:
        told = [task.snapshot(2, 2000) for task in opened]
    except (Crash, FilesError, WriteUnknown, StateDamaged):
        assert at < 3
    retried = failure in (Failure.LOST, Failure.UNHEARD)  # the commit found out by itself what became of it
    assert len(told) == (3 if at == 3 or retried else 0)
    tasks.files.creations.clear()
    tasks.close()
    assert tasks.published is published
    for count in (3, 2):
        opened = tasks.open_all(count)
        check(opened, 1)
        count_all(opened)
        tasks.checkpoint(opened)
        tasks.close()
        check(tasks.open_all(count), 2)
        tasks.published = published


def test_a_snapshot_whose_outcome_is_unknown_may_be_taken_again(tasks: Tasks) -> None:
    opened = tasks.open_all(2)
    count_all(opened)
    tasks.files.creations.extend([Failure.LOST, Failure.LOST])
    with pytest.raises(CommitUnknown):
        opened[0].snapshot(1, 1000)
    tasks.files.creations.append(Failure.REFUSED)
    with pytest.raises(FilesError):
        opened[0].snapshot(1, 1000)
    made = tasks.checkpoint(opened)
    assert [one.version for one in made.operators["operator"]] == [1, 1]
    check(tasks.open_all(3), 1)


@pytest.mark.parametrize("failure", [Failure.CRASH_BEFORE, Failure.CRASH_AFTER, Failure.CRASH_WITHIN, Failure.REFUSED])
def test_a_crash_while_state_is_taken_over(tasks: Tasks, failure: Failure) -> None:
    """What is committed on the way counts in no checkpoint, so the next try begins where this one did."""
    opened = tasks.open_all(3)
    count_all(opened)
    tasks.checkpoint(opened)
    tasks.close()
    with patch.object(restoring, "PART_BYTES", 40):
        for at in (0, 1):
            tasks.files.creations.extend([Failure.NONE] * at + [failure])
            with pytest.raises((Crash, FilesError)):
                tasks.open(0, 2)
            tasks.files.creations.clear()
        opened = tasks.open_all(2)
        check(opened, 1)
        tasks.checkpoint(opened)
        tasks.close()
    check(tasks.open_all(2), 1)


def open_counts(tasks: Tasks, count: int) -> None:
    """Open the first of so many tasks, and the counts that it has."""
    tasks.open(0, count).keyed_state.value_state(COUNTS)


@pytest.mark.parametrize("count", [3, 2])
def test_damage_is_told(tasks: Tasks, count: int) -> None:
    opened = tasks.open_all(3)
    count_all(opened)
    made = tasks.checkpoint(opened)
    tasks.close()
    first = made.operators["operator"][0]
    path = f"{first.store.directory}/{first.version}_{first.id}.delta"
    whole = tasks.files.read(path, 0, 1 << 20)
    for place in range(10, len(whole) - 9, 97):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        tasks.files.delete(path)
        tasks.files.create(path, bytes(damaged))
        with pytest.raises(StateDamaged, match=path):
            open_counts(tasks, count)
    tasks.files.delete(path)
    with pytest.raises(VersionNotFound):
        open_counts(tasks, count)
    tasks.files.create(path, whole)
    check(tasks.open_all(count), 1)

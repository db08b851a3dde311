"""State and timers of keys go to other tables when their number changes."""

from __future__ import annotations

import pytest

from milepost.state.coders import Utf8Coder
from milepost.state.dialects.beam import StateInternalsFactory, TimerInternalsFactory, take_over
from milepost.state.key_groups import KeyGroups
from milepost.state.store import (
    FileStateStoreProvider,
    MemoryFiles,
    ProviderSettings,
    StateStore,
    StateStoreId,
)
from tests.client.state.dialects.beam.conftest import NAMESPACE_1, WINDOWS, at
from tests.client.state.dialects.beam.test_contract import FILLED, VALUE
from tests.client.state.dialects.beam.test_timers import timer

GROUPS = KeyGroups(16)
CODER = Utf8Coder()
KEYS = [f"key {number}\0" for number in range(30)]


def provider(files: MemoryFiles, tasks: int, task: int) -> FileStateStoreProvider:
    found = FileStateStoreProvider(files, ProviderSettings(maintenance_interval=None))
    found.init(StateStoreId(1, task, f"of-{tasks}"))
    return found


def task_of(key: str, tasks: int) -> int:
    return GROUPS.task_of(GROUPS.group(CODER.encode(key)), tasks)


def opened(store: StateStore) -> tuple[StateInternalsFactory[str], TimerInternalsFactory[str]]:
    return StateInternalsFactory(store, CODER), TimerInternalsFactory(store, CODER, WINDOWS)


@pytest.mark.parametrize("tasks", [1, 2, 5, 16])
def test_any_number_of_tasks_goes_on(tasks: int) -> None:
    files = MemoryFiles()
    before = [provider(files, 3, task) for task in range(3)]
    for task, one in enumerate(before):
        store = one.get_store(0)
        states, timers = opened(store)
        for number, key in enumerate(KEYS):
            if task_of(key, 3) == task:
                internals = states.state_internals_for_key(key)
                for tag, fill in FILLED.items():
                    fill(internals.state(NAMESPACE_1, tag))
                internals.state(NAMESPACE_1, VALUE).write(key)
                timers.timer_internals_for_key(key).set_timer(timer("id", number))
        timers.advance_input_watermark(at(100 + task))
        if task:
            timers.advance_output_watermark(at(50))
        store.commit()
    found = []
    for task in range(tasks):
        store = provider(files, tasks, task).get_store(0)
        older = [one.get_read_store(1) for one in before]
        take_over(store, older, lambda key, task=task: GROUPS.task_of(GROUPS.group(key), tasks) == task)  # type: ignore[misc]
        for read in older:
            read.release()
        store.commit()
        states, timers = opened(provider(files, tasks, task).get_store(1))
        assert (timers.current_input_watermark_time(), timers.current_output_watermark_time()) == (at(100), None)
        for key in KEYS:
            internals = states.state_internals_for_key(key)
            here = task_of(key, tasks) == task
            assert internals.state(NAMESPACE_1, VALUE).read() == (key if here else None)
            assert all(
                internals.state(NAMESPACE_1, tag).is_empty().read() is not here for tag in FILLED if tag != VALUE
            )
            assert (timers.timer_internals_for_key(key).remove_next_event_timer() is not None) is here
            found += [key] if here else []
        assert timers.remove_next_event_timer() is None
    assert sorted(found) == sorted(KEYS)

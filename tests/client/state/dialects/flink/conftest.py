"""Tasks of one operator, over memory and RocksDB, and what tests do with all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost.state.coders import Utf8Coder
from milepost.state.dialects.flink import Checkpoint, OperatorTask
from milepost.state.key_groups import KeyGroups
from milepost.state.store import ProviderSettings
from milepost.state.store.engines.engine import EngineFactory
from tests.client.state.support.failing_files import FailingFiles


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Tasks:
    """Opens tasks, publishes their checkpoints, and ends what is still open with the test."""

    def __init__(self, files: FailingFiles, engines: EngineFactory, clock: Clock) -> None:
        self.files = files
        self.clock = clock
        self.settings = ProviderSettings(engines=engines, maintenance_interval=None)
        self.published: Checkpoint | None = None
        self._open: list[OperatorTask] = []

    def open(self, task: int = 0, tasks: int = 1, **changed: Any) -> OperatorTask:
        """Open one task, from the published checkpoint if there is one."""
        chosen: dict[str, Any] = {
            "key_coder": Utf8Coder(),
            "restored": self.published,
            "settings": self.settings,
            "clock": self.clock,
            **changed,
        }
        opened = OperatorTask(self.files, "operator", task, tasks, **chosen)
        self._open.append(opened)
        return opened

    def open_all(self, tasks: int, make: Callable[[], Any] = lambda: None, **changed: Any) -> list[OperatorTask]:
        """Open all tasks, each with a function of its own."""
        return [self.open(task, tasks, function=make(), **changed) for task in range(tasks)]

    def checkpoint(self, tasks: list[OperatorTask]) -> Checkpoint:
        """Take a snapshot of all tasks and publish it, by way of its document."""
        id = 1 if self.published is None else self.published.id + 1
        made = Checkpoint.of([task.snapshot(id, timestamp=1000 * id) for task in tasks])
        self.published = Checkpoint.from_json(made.to_json())
        assert self.published == made
        return made

    def close(self) -> None:
        """End all tasks."""
        for task in self._open:
            task.close()
        self._open.clear()


@pytest.fixture
def clock() -> Clock:
    """The clock of all tasks."""
    return Clock()


@pytest.fixture
def tasks(files: FailingFiles, engines: EngineFactory, clock: Clock) -> Iterator[Tasks]:
    """The tasks of one operator."""
    opener = Tasks(files, engines, clock)
    yield opener
    opener.close()


def task_of(tasks: list[OperatorTask], key: str) -> OperatorTask:
    """Return the task that has a key, with the key as its current one."""
    groups = KeyGroups()
    found = tasks[groups.task_of(groups.group(key.encode()), len(tasks))]
    found.keyed_state.current_key = key
    return found

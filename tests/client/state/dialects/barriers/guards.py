"""What makes the snapshots consistent, each taken out by patching the real code where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from milepost.state.dialects.barriers import FileSnapshots, Pipeline, nodes
from milepost.state.dialects.barriers.nodes import Task
from milepost.state.dialects.barriers.running import COORDINATOR, Step
from milepost.state.store import MemoryFiles

Patch = pytest.MonkeyPatch
TakeOut = Callable[[Patch], None]


def alignment(patch: Patch) -> None:
    """An input goes on after its barrier, before the others have theirs."""
    real = Task._blocks
    patch.setattr(Task, "_blocks", lambda self, one: isinstance(self.inputs[one][0], int) and real(self, one))


def log_of_back_edges(patch: Patch) -> None:
    """What is in transit when the snapshot is taken is not kept."""
    real = Task.do

    def do(self: Task, act: str, place: str) -> Any:
        done = real(self, act, place)
        if self._part is not None:
            self._part.log.clear()
        return done

    patch.setattr(Task, "do", do)


def acknowledgement_after_saving(patch: Patch) -> None:
    """A task acknowledges a part first, and saves it in a step of its own."""
    real = Pipeline._save

    def save(self: Pipeline, task: Task) -> None:
        attempt, part = task.parts[0]
        if attempt == self.attempt and task.name not in self._saved:
            self._saved[task.name] = FileSnapshots(MemoryFiles()).save(part), part
        else:
            real(self, task)

    patch.setattr(Pipeline, "_save", save)


def all_acknowledgements(patch: Patch) -> None:
    """An epoch may be completed when half of the tasks have acknowledged."""
    real = Pipeline.steps

    def steps(self: Pipeline) -> list[Step]:
        early = self.open and len(self.tasks) > len(self._saved) > len(self.tasks) / 2
        return real(self) + ([("complete", COORDINATOR, "")] if early and not self._deliveries else [])

    patch.setattr(Pipeline, "steps", steps)


def copy_of_the_state(patch: Patch) -> None:
    """A snapshot has the state itself, which goes on changing until it is saved."""
    patch.setattr(nodes, "copy", SimpleNamespace(deepcopy=lambda one: one))


def snapshot_before_the_barrier(patch: Patch) -> None:
    """A task passes the first barrier on at once, and takes its snapshot when it is aligned."""
    real = Task._meet

    def meet(self: Task, barrier: int, sender: str) -> Any:
        first = not self._arrived
        real(self, barrier, sender)
        return [barrier] if first else []

    patch.setattr(Task, "_meet", meet)


def one_after_the_other(patch: Patch) -> None:
    """A barrier of the next attempt is met while the last one is still open."""
    real = Task._blocks
    patch.setattr(Task, "_blocks", lambda self, one: not isinstance(self.inputs[one][0], int) and real(self, one))


def refilled_first(patch: Patch) -> None:
    """What was in transit waits, and barriers and later records pass it."""
    real = Task.steps

    def steps(self: Task) -> Iterator[tuple[str, str]]:
        refill, self.refill = self.refill, type(self.refill)()
        found = list(real(self))
        self.refill = refill
        yield from found or ([("refill", "")] if refill else [])

    patch.setattr(Task, "steps", steps)


def rewound_sources(patch: Patch) -> None:
    """A source begins at the start again, whatever the snapshot says."""
    real = Pipeline._restore

    def restore(self: Pipeline) -> None:
        real(self)
        for task in self.tasks.values():
            task.state.update(dict.fromkeys(task.state, 0) if task.node.splits is not None else {})

    patch.setattr(Pipeline, "_restore", restore)


def output_waits(patch: Patch) -> None:
    """A sink delivers at once."""
    real = Pipeline.perform

    def perform(self: Pipeline, step: Step) -> None:
        real(self, step)
        for task in self.tasks.values():
            if task.output and task.name == step[1]:
                self._deliver(self.epoch + 1, task.name, task.output[-1:])

    patch.setattr(Pipeline, "perform", perform)


def delivered_before_the_next(patch: Patch) -> None:
    """The next epoch is completed while the output of the last one is still here."""
    real = Pipeline.steps

    def steps(self: Pipeline) -> list[Step]:
        early = self.open and self._deliveries and self._saved.keys() == self.tasks.keys()
        return real(self) + ([("complete", COORDINATOR, "")] if early and COORDINATOR not in self.dead else [])

    patch.setattr(Pipeline, "steps", steps)


def delivered_again(patch: Patch) -> None:
    """Who restores a snapshot takes its output for delivered."""
    real = Pipeline._restore

    def restore(self: Pipeline) -> None:
        real(self)
        self._deliveries.clear()

    patch.setattr(Pipeline, "_restore", restore)


def output_is_forgotten(patch: Patch) -> None:
    """A sink holds what a complete snapshot has, and puts it in the next one as well."""
    real = Pipeline._complete

    def complete(self: Pipeline) -> None:
        held = {name: list(self.tasks[name].output) for name in self.tasks}
        real(self)
        for name, output in held.items():
            self.tasks[name].output[:] = output

    patch.setattr(Pipeline, "_complete", complete)

"""Runs of a pipeline drawn from a number: the graph, the order of the steps, and who dies when.

``python -m tests.client.state.dialects.barriers.simulator 17`` shows the run 17, step by step.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from milepost.state.dialects.barriers import Alignment, FileSnapshots, Graph, Pipeline, Record
from milepost.state.errors import FilesError, WriteUnknown
from milepost.state.store import MemoryFiles
from tests.client.state.dialects.barriers.checker import Checker, Delivered, Fault, Inconsistent, check_results
from tests.client.state.dialects.barriers.graphs import drawn, rescaled
from tests.client.state.support.failing_files import FailingFiles, Failure

FAILURES = (Failure.REFUSED, Failure.LOST, Failure.UNHEARD)
MOST_STEPS = 20_000


class NotDelivered(Exception):
    """The place that output goes to failed."""


@dataclass
class Run:
    """One run, and what happened in it."""

    seed: int
    graph: Graph | None = None
    alignment: Alignment | None = None
    crashes: int = 4
    trace: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)

    def play(self) -> Delivered:
        """Go on to the end, through all crashes. Raises `Inconsistent`, with its seed and last steps, at a fault."""
        try:
            return self._play()
        except Inconsistent as error:
            error.args = (f"seed {self.seed}: {error.args[0]}\n" + "\n".join(self.trace[-60:]),)
            raise

    def _play(self) -> Delivered:
        self._random = random = Random(self.seed)
        self._graph = self.graph or drawn(random)
        self._alignment = self.alignment or random.choice([Alignment.EXACTLY_ONCE, Alignment.UNALIGNED])
        self._files = FailingFiles(MemoryFiles())
        self._store = FileSnapshots(self._files)
        self._delivered = Delivered()
        self._fails_to_deliver = 0.0
        for _ in range(random.randint(0, self.crashes)):
            self._live(random.randrange(1, 400), random.choice(["task", "coordinator", "both", "nobody"]))
            self._files.creations.clear()
        self._fails_to_deliver = 0.0
        self._live(None, "nobody")
        check_results(self._graph, self._delivered, self._store.latest()[1])
        return self._delivered

    def _deliver(self, epoch: int, task: str, records: Sequence[Record]) -> None:
        if self._random.random() < self._fails_to_deliver:
            raise NotDelivered
        self._delivered(epoch, task, records)
        if self._random.random() < self._fails_to_deliver:
            raise NotDelivered

    def _live(self, steps: int | None, dies: str) -> None:
        """Restore, and do so many steps, or all; then someone dies, and the others go on for a while."""
        random = self._random
        graph = rescaled(self._graph, random)
        pipeline = Pipeline(graph, self._store, self._deliver, self._alignment)
        self.tally["records in transit"] += sum(len(task.refill) for task in pipeline.tasks.values())
        checker = Checker(graph, pipeline, self._store, forward=self._alignment is Alignment.UNALIGNED)
        self.trace.append(f"-- restored from epoch {pipeline.epoch}")
        self.tally["restores"] += bool(pipeline.epoch)
        self._slow = random.choice(["", "emit", "take", "refill", "save", "complete", "deliver"])
        if steps is None:
            self._finish(pipeline, checker)
            return
        self._fails_to_deliver = random.choice([0.0, 0.2])
        every, failing = random.randint(5, 30), random.choice([0.0, 0.0, 0.05])
        last = steps + random.randrange(60)
        for number in range(last):
            if number == steps and dies != "nobody":
                names = [random.choice(list(pipeline.tasks))] if dies != "coordinator" else []
                names += ["coordinator"] if dies != "task" else []
                pipeline.dead.update(names)
                self.trace.append(f"-- dead: {names}")
                self.tally[f"{dies} died"] += 1
            if random.random() < failing:
                self._files.creations.extend(random.choices(FAILURES, k=2))
            due = random.random() < (0.1 if pipeline.open else 1.0) / every
            if due and "coordinator" not in pipeline.dead:
                self.tally["given up"] += pipeline.open
                pipeline.trigger()
                self.trace.append(f"-- attempt {pipeline.attempt}")
            self._step(pipeline, checker)

    def _step(self, pipeline: Pipeline, checker: Checker) -> bool:
        if not (possible := pipeline.steps()):
            return False
        prompt = [step for step in possible if step[0] != self._slow]
        step = self._random.choice(prompt if prompt and self._random.random() < 0.95 else possible)
        self.trace.append(" ".join(step))
        epoch, attempt = pipeline.epoch, pipeline.open
        try:
            checker.perform(step)
        except (FilesError, WriteUnknown, NotDelivered) as error:
            self.tally[type(error).__name__] += 1
            self.trace.append(f"-- {type(error).__name__}")
        self.tally["steps"] += 1
        self.tally["snapshots"] += pipeline.epoch - epoch
        self.tally["declined"] += attempt and step[0] == "save" and not pipeline.open
        return True

    def _finish(self, pipeline: Pipeline, checker: Checker) -> None:
        done = -1
        for _ in range(MOST_STEPS):
            if not self._step(pipeline, checker):
                if pipeline.open:
                    raise Inconsistent(Fault.STUCK, pipeline.attempt)
                if done >= 0 and pipeline.epoch > done:
                    return
                done = pipeline.epoch
                pipeline.trigger()
            elif not pipeline.open and self._random.random() < 0.03:
                pipeline.trigger()
        raise Inconsistent(Fault.STUCK, f"{MOST_STEPS} steps")


if __name__ == "__main__":
    shown = Run(int(sys.argv[1]))
    shown.play()
    print(*shown.trace, sep="\n")
    print(dict(shown.tally))

"""A pipeline: the tasks of a graph and the coordinator of their snapshots, run step by step in one process."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from milepost.state.dialects.barriers.nodes import GROUPS, Alignment, Barrier, Graph, Part, Record, Task
from milepost.state.dialects.barriers.snapshots import SnapshotStore
from milepost.state.errors import EpochTaken, FilesError, InvalidUse, PipelineStopped, WriteUnknown
from milepost.state.store import Created

COORDINATOR = "coordinator"
Step = tuple[str, str, str]
Deliver = Callable[[int, str, Sequence[Record]], None]


class Pipeline:
    """Runs a graph from its newest complete snapshot, or from the start, with any number of tasks. ``epoch`` is the
    number of that snapshot, 0 before the first one.

    Nothing happens by itself: `steps` lists the possible steps, and `perform` does one of them. So a test can try the
    steps in any order, and repeat that order. A task or coordinator that fails stays in ``dead``; a new pipeline
    restores the whole state. ``deliver`` takes the number of a snapshot, the name of a sink's task, and its records; a
    repeated call for the same snapshot and task must do nothing. Raises `InvalidUse` if the snapshot has other nodes
    than the graph, or splits that the graph does not have.
    """

    def __init__(
        self, graph: Graph, store: SnapshotStore, deliver: Deliver, alignment: Alignment = Alignment.EXACTLY_ONCE
    ) -> None:
        self._graph, self._store, self._deliver = graph, store, deliver
        self.dead: set[str] = set()
        self.attempt, self.open = 0, False
        self._saved: dict[str, tuple[str, Part]] = {}  # the saved parts of the current attempt, by task
        self._deliveries: deque[tuple[int, str, list[Record]]] = deque()
        self._nodes = {node.name: [Task(node, at, alignment) for at in range(node.tasks)] for node in graph.nodes}
        self.tasks = {task.name: task for tasks in self._nodes.values() for task in tasks}
        self._connect()
        self._restore()

    def _connect(self) -> None:
        for node in self._graph.nodes:
            for task in self._nodes[node.name] if node.splits is not None else ():
                task.inputs[COORDINATOR] = deque()
            for split in node.splits or ():
                self._owner(node.name, split).state[split] = 0
        for edge in self._graph.edges:
            for task in self._nodes[edge.target]:
                senders = [sender.name for sender in self._nodes[edge.source]]
                task.inputs.update({sender: deque() for sender in senders})
                task.back.update(senders if (edge.source, edge.target) in self._graph.back else ())

    def _restore(self) -> None:
        self.epoch, parts = self._store.latest()
        if self.epoch and (had := {name.rpartition("-")[0] for name in parts}) != self._nodes.keys():
            raise InvalidUse(f"the snapshot is of other nodes: {', '.join(sorted(had))}")
        for name, part in parts.items():
            node = name.rpartition("-")[0]
            for key, value in part.state.items():
                owner = self._owner(node, key)
                if owner.node.splits is not None and key not in owner.node.splits:
                    raise InvalidUse(f"the snapshot has read from {key!r}, which {node} does not have")
                owner.state[key] = value
            for sender, record in part.log:
                self._owner(node, record.key).refill.append((sender, record))
            self._deliveries.extend([(self.epoch, name, part.output)] if part.output else [])

    def _owner(self, node: str, key: str) -> Task:
        tasks = self._nodes[node]
        return tasks[GROUPS.task_of(GROUPS.group(key.encode()), len(tasks))]

    def trigger(self) -> None:
        """Begin a new attempt at a snapshot, and abandon the attempt under way. Raises `PipelineStopped` if the
        coordinator is dead.
        """
        if COORDINATOR in self.dead:
            raise PipelineStopped("the coordinator is dead")
        self.attempt, self.open, self._saved = self.attempt + 1, True, {}
        for task in (one for one in self.tasks.values() if COORDINATOR in one.inputs):
            task.inputs[COORDINATOR].append(self.attempt)

    def steps(self) -> list[Step]:
        """Return the possible next steps, always in the same order.

        Each step has an action, the task or the coordinator that does it, and a place. A task can "emit" from a split,
        "take" from a sender, "refill" a record that was in transit, or "save" and acknowledge its part of the snapshot.
        The coordinator can "complete" the snapshot, or "deliver" the records of a sink.
        """
        living = [task for name, task in self.tasks.items() if name not in self.dead]
        found = [(act, task.name, place) for task in living for act, place in task.steps()]
        if COORDINATOR not in self.dead:
            # a restore repeats only the newest epoch's deliveries, so they end before the next epoch completes
            if self._deliveries:
                found.append(("deliver", COORDINATOR, ""))
            elif self.open and self._saved.keys() == self.tasks.keys():
                found.append(("complete", COORDINATOR, ""))
        return found

    def perform(self, step: Step) -> None:
        """Do one of the steps that `steps` returned. An exception, for example of a function of the graph, kills the
        task or the coordinator that did the step, and is raised to the caller.
        """
        act, who, place = step
        try:
            if act == "complete":
                self._complete()
            elif act == "deliver":
                self._deliver(*self._deliveries[0])
                self._deliveries.popleft()
            elif act == "save":
                self._save(self.tasks[who])
            else:
                self._send(self.tasks[who], self.tasks[who].do(act, place))
        except BaseException:
            self.dead.add(who)
            raise

    def _save(self, task: Task) -> None:
        attempt, part = task.parts.popleft()
        try:
            acknowledged = {task.name: (self._store.save(part), part)}
        except (FilesError, WriteUnknown):  # no manifest names the part, so only this attempt fails
            self.open, acknowledged = self.open and attempt != self.attempt, {}
        self._saved.update(acknowledged if attempt == self.attempt else {})

    def _send(self, task: Task, sent: Sequence[Record | Barrier]) -> None:
        for edge in self._graph.edges:
            for one in sent if edge.source == task.node.name else ():
                if isinstance(one, Barrier):
                    for target in self._nodes[edge.target]:
                        target.inputs[task.name].append(one)
                elif edge.when(one):
                    self._owner(edge.target, one.key).inputs[task.name].append(copy.deepcopy(one))

    def _complete(self) -> None:
        """Complete the snapshot: store the list of its parts, without which a restore ignores them. The sinks then drop
        the output that the snapshot contains. Raises `EpochTaken` if another coordinator completed this number first.
        """
        parts = {task: saved for task, (saved, _) in self._saved.items()}
        if self._store.complete(self.epoch + 1, parts) is Created.EXISTS:
            raise EpochTaken(f"another coordinator has completed epoch {self.epoch + 1}")
        self.epoch, self.open = self.epoch + 1, False
        for name, (_, part) in self._saved.items():
            del self.tasks[name].output[: len(part.output)]
            self._deliveries.extend([(self.epoch, name, part.output)] if part.output else [])

    def run(self, seed: int, every: int = 50, most: int = 1_000_000) -> None:
        """Do steps in a random order, which ``seed`` determines, and trigger snapshots, about one in ``every`` steps,
        until all records are delivered. Raises `PipelineStopped` if a task or the coordinator is dead, or after
        ``most`` steps.
        """
        random, last = Random(seed), None
        for number in range(0 if self.dead else most):
            steps = self.steps()
            if not steps and last is not None and self.epoch > last:
                return
            if steps and (self.open or number % every):
                self.perform(random.choice(steps))
            else:
                last = last if steps else self.epoch
                self.trigger()
        raise PipelineStopped(f"these are dead: {sorted(self.dead)}" if self.dead else f"no end in {most} steps")

"""Holds each snapshot against the run it was taken of: it has to be a consistent cut (Chandy and Lamport 1985).

The checker sees which records are handled in which order, and nothing of barriers, alignment or logs. It handles them
itself, on channels of its own. So it knows the state of each task after each of its steps, and looks for the one that
the snapshot has. Then it asks of each record on which side of the cut it was sent, and on which it was handled.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from milepost.state.dialects.barriers import Graph, Part, Pipeline, Record, SnapshotStore
from milepost.state.errors import FileMissing
from milepost.state.key_groups import KeyGroups
from tests.client.state.dialects.barriers.graphs import expected, plain


class Fault(Enum):
    """What can be wrong."""

    CHANNEL = "a task reads something else than what comes next in this channel, or this split"
    INCOMPLETE = "a snapshot counts that does not have the parts of all tasks"
    NO_SUCH_STATE = "the state of a snapshot is none that the task had"
    ORPHAN = "a record counts that was sent after the cut"
    LOST = "a record that was sent before the cut neither counts nor is in transit"
    DOUBLED = "a record is in transit that counts, or that was not sent"
    FORWARD = "a record is in transit on an edge that closes no loop"
    OUTPUT = "what was delivered is not what the input comes to"
    DELIVERED_TWICE = "something else was delivered under the same epoch"
    RESULT = "what the operators have seen is not what the input comes to"
    STUCK = "there is nothing left to do, and the snapshot is not complete"


class Inconsistent(AssertionError):
    """A run is not as it has to be."""

    def __init__(self, fault: Fault, what: object) -> None:
        super().__init__(f"{fault.value}: {what}")
        self.fault = fault


@dataclass
class Message:
    """One record on its way: between which steps of which tasks."""

    sender: str
    target: str
    record: Record
    sent: int
    handled: int | None = None


@dataclass
class Shadow:
    """What one task did: its state after each step, what it holds, and where its newest complete snapshot cuts."""

    states: list[dict[str, Any]]
    received: list[Record | None] = field(default_factory=list)
    cut: int = 0


class Delivered:
    """Takes what a pipeline delivers, once for each epoch and task."""

    def __init__(self) -> None:
        self.records: dict[tuple[int, str], list[Record]] = {}

    def __call__(self, epoch: int, task: str, records: Sequence[Record]) -> None:
        if self.records.setdefault((epoch, task), list(records)) != records:
            raise Inconsistent(Fault.DELIVERED_TWICE, (epoch, task))

    def counted(self) -> Counter[Any]:
        """Return how often what was delivered at which sink."""
        return Counter(
            (task.rpartition("-")[0], plain(record)) for (_, task), some in self.records.items() for record in some
        )


class Checker:
    """Watches one pipeline, from its making until it is given up."""

    def __init__(self, graph: Graph, pipeline: Pipeline, store: SnapshotStore, *, forward: bool) -> None:
        """``forward`` says whether any edge may have records in transit, or only back edges."""
        self.graph, self.pipeline, self.forward = graph, pipeline, forward
        self._store, parts = store, store.latest()[1]
        self._kinds = {node.name: node for node in graph.nodes}
        self.tasks = {f"{node.name}-{at}": Shadow([{}]) for node in graph.nodes for at in range(node.tasks)}
        self.messages: list[Message] = []
        self._channels: dict[tuple[str, str], deque[Message]] = defaultdict(deque)
        for node in graph.nodes:
            for split in node.splits or ():
                self.tasks[self._owner(node.name, split)].states[0][split] = 0
        for name, part in parts.items():
            of = name.rpartition("-")[0]
            for key, value in part.state.items():
                self.tasks[self._owner(of, key)].states[0][key] = copy.deepcopy(value)
            for sender, record in part.log:
                self._send(sender, self._owner(of, record.key), record, -1, "refill")

    def _owner(self, node: str, key: str) -> str:
        groups, count = KeyGroups(), self._kinds[node].tasks
        return f"{node}-{groups.task_of(groups.group(key.encode()), count)}"

    def _send(self, sender: str, target: str, record: Record, sent: int, channel: str = "") -> None:
        message = Message(sender, target, copy.deepcopy(record), sent)
        self.messages.append(message)
        self._channels[channel or sender, target].append(message)

    def perform(self, step: tuple[str, str, str]) -> None:
        """Let the pipeline do a step, and do the same here if it concerns a record."""
        act, task, place = step
        first: Any = None
        if act == "take":
            first = self.pipeline.tasks[task].inputs[place][0]
        elif act == "refill":
            first = self.pipeline.tasks[task].refill[0][1]
        if act == "emit" or isinstance(first, Record):
            self._follow(act, task, place, first)
        epoch = self.pipeline.epoch
        self.pipeline.perform(step)
        if self.pipeline.epoch > epoch:
            self.check(self._parts())

    def _parts(self) -> dict[str, Part]:
        try:
            parts = self._store.latest()[1]
        except FileMissing as error:
            raise Inconsistent(Fault.INCOMPLETE, error) from error
        if parts.keys() != self.tasks.keys():
            raise Inconsistent(Fault.INCOMPLETE, self.tasks.keys() - parts.keys())
        return parts

    def _follow(self, act: str, task: str, place: str, first: Record) -> None:
        shadow, node = self.tasks[task], self._kinds[task.rpartition("-")[0]]
        state, now = dict(shadow.states[-1]), len(shadow.received)
        if act == "emit":
            assert node.splits is not None
            if self.pipeline.tasks[task].state[place] != state[place]:
                raise Inconsistent(Fault.CHANNEL, (task, place, state[place]))
            sent: Iterable[Record] = [node.splits[place][state[place]]]
            state[place] += 1
            shadow.received.append(None)
        else:
            waiting = self._channels["refill" if act == "refill" else place, task]
            if not waiting or waiting[0].record != first:
                raise Inconsistent(Fault.CHANNEL, (task, place, first, list(waiting)[:1]))
            message = waiting.popleft()
            message.handled = now
            shadow.received.append(message.record)
            sent = []
            if node.process is not None:
                old = copy.deepcopy(state.get(message.record.key))
                state[message.record.key], sent = node.process(old, copy.deepcopy(message.record))
        shadow.states.append(state)
        for record in sent:
            for edge in self.graph.edges:
                if edge.source == node.name and edge.when(record):
                    self._send(task, self._owner(edge.target, record.key), record, now)

    def check(self, parts: dict[str, Part]) -> None:
        """Raise `Inconsistent` unless the snapshot is a consistent cut of what was done."""
        cuts = {task: self._cut(task, parts[task]) for task in self.tasks}
        transit: dict[str, list[Message]] = defaultdict(list)
        for one in self.messages:
            sent = one.sent < cuts.get(one.sender, 0) or one.sent < 0
            handled = one.handled is not None and one.handled < cuts[one.target]
            if handled and not sent:
                raise Inconsistent(Fault.ORPHAN, one)
            if sent and not handled:
                transit[one.target].append(one)
        for task, part in parts.items():
            self._check_log(task, part.log, transit[task])
            self.tasks[task].cut = cuts[task]

    def _cut(self, task: str, part: Part) -> int:
        """Return how many steps of the task the snapshot has."""
        shadow = self.tasks[task]
        if (node := self._kinds[task.rpartition("-")[0]]).process is None and node.splits is None:
            cut = shadow.cut + len(part.output)
            if shadow.received[shadow.cut : cut] != part.output:
                raise Inconsistent(Fault.NO_SUCH_STATE, (task, part.output))
            return cut
        cuts = [at for at, state in enumerate(shadow.states) if state == part.state]
        if len(cuts) != 1:
            raise Inconsistent(Fault.NO_SUCH_STATE, (task, part.state))
        return cuts[0]

    def _check_log(self, task: str, log: list[tuple[str, Record]], transit: list[Message]) -> None:
        of = task.rpartition("-")[0]
        for sender in {*(one.sender for one in transit), *(sender for sender, _ in log)}:
            wanted = [one.record for one in transit if one.sender == sender]
            logged = [record for name, record in log if name == sender]
            if len(logged) < len(wanted):
                raise Inconsistent(Fault.LOST, (sender, task, wanted, logged))
            if logged != wanted:
                raise Inconsistent(Fault.DOUBLED, (sender, task, wanted, logged))
            if not self.forward and (sender.rpartition("-")[0], of) not in self.graph.back:
                raise Inconsistent(Fault.FORWARD, (sender, task, logged))


def check_results(graph: Graph, delivered: Delivered, parts: dict[str, Part]) -> None:
    """Raise `Inconsistent` unless everything came out once, and was seen once by each operator that it passes."""
    out, seen = expected(graph)
    if delivered.counted() != out:
        raise Inconsistent(Fault.OUTPUT, (delivered.counted() - out, out - delivered.counted()))
    for node in graph.nodes:
        if node.process is not None:
            mine = [part.state for name, part in parts.items() if name.rpartition("-")[0] == node.name]
            found = Counter((key, tuple(one)) for state in mine for key, some in state.items() for one in some)
            if found != seen[node.name]:
                raise Inconsistent(Fault.RESULT, (node.name, found - seen[node.name], seen[node.name] - found))

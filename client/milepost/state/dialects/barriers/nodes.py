"""The graph of a pipeline, and the parallel tasks of its nodes. A task aligns the barriers of its inputs, and takes a
snapshot of its own state.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from milepost.state.errors import InvalidUse
from milepost.state.key_groups import KeyGroups

GROUPS = KeyGroups()
Barrier = int  # an attempt's number: it separates records before the attempt's snapshot from later ones


class Record(NamedTuple):
    """A message on an edge of the graph, routed to the task that owns its key; the value must be JSON."""

    key: str
    value: Any


@dataclass(frozen=True)
class Node:
    """A node of the graph: a source, an operator or a sink.

    A source has ``splits``, the records to read by the name of each split. It can read a split again from any offset,
    and the names of the splits are the keys of its state. An operator has ``process``, which takes the state of a
    record's key (None at first) and the record, and returns the new state, which must be JSON, and the records to send
    on. A sink has neither. It delivers its records once a snapshot that contains them is complete.
    """

    name: str
    process: Callable[[Any, Record], tuple[Any, Iterable[Record]]] | None = None
    splits: Mapping[str, Sequence[Record]] | None = None
    tasks: int = 1


@dataclass(frozen=True)
class Edge:
    """An edge: the node ``source`` sends the records for which ``when`` is true to the node ``target``."""

    source: str
    target: str
    when: Callable[[Record], bool] = lambda _: True


@dataclass(frozen=True)
class Graph:
    """The graph of a pipeline: nodes, and edges that may form loops. ``back`` has the edges that close the loops: the
    back edges of a depth-first search (Carbone et al. 2015, section 4.3). Raises `InvalidUse` if a barrier would not
    reach every node, and `ValueError` unless each node has 1 to 128 tasks.
    """

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    back: set[tuple[str, str]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        named = [node.name for node in self.nodes if GROUPS.groups_of(0, node.tasks)]
        sources = [node.name for node in self.nodes if node.splits is not None]
        operators = [node.name for node in self.nodes if node.process is not None]
        ends = [(edge.source, edge.target) for edge in self.edges]
        if len(set(named)) < len(named) or len(set(ends)) < len(ends) or {*sources} & {*operators}:
            raise InvalidUse("two nodes have one name, two edges the same ends, or a source has a process")
        for source, target in ends:
            if source not in sources + operators or target not in named or target in sources:
                raise InvalidUse(f"no edge can lead from {source!r} to {target!r}")
        seen: set[str] = set()
        for name in sources:
            self._search(name, (name,), seen)
        if unreached := {*named} - seen:
            raise InvalidUse(f"no source leads, so no barrier comes, to {', '.join(sorted(unreached))}")

    def _search(self, name: str, path: tuple[str, ...], seen: set[str]) -> None:
        seen.add(name)
        for target in [edge.target for edge in self.edges if edge.source == name]:
            if target in path:
                self.back.add((name, target))
            elif target not in seen:
                self._search(target, (*path, target), seen)


class Part(NamedTuple):
    """One task's part of a snapshot of the pipeline. ``state`` has the state of each key or, for a source, the offset
    in each split. ``log`` has the records that were in transit to the task, with their senders. ``output`` has the
    records that a sink delivers once the snapshot is complete.
    """

    state: dict[str, Any]
    log: list[tuple[str, Record]]
    output: list[Record]


class Alignment(Enum):
    """How a task treats its inputs while a snapshot is taken, from the first barrier of the snapshot that arrives to
    the last one.
    """

    EXACTLY_ONCE = "it blocks those whose barrier has come (Carbone et al. 2015)"
    UNALIGNED = "it takes its snapshot at once, and logs the others (Chandy and Lamport 1985; compare Flink's FLIP-76)"
    AT_LEAST_ONCE = "it goes on with all, so after a restore records may count twice"


class Task:
    """One of the parallel tasks of a node. ``inputs`` has a first-in-first-out channel for each sender, and ``back``
    the senders whose edges close loops. ``refill`` has the records that were in transit at the restored snapshot.
    ``parts`` has the parts of snapshots that are still to be saved, each with the number of its attempt at a snapshot.
    """

    def __init__(self, node: Node, number: int, alignment: Alignment) -> None:
        self.name, self.node, self.alignment = f"{node.name}-{number}", node, alignment
        self.inputs: dict[str, deque[Record | Barrier]] = {}
        self.back: set[str] = set()
        self.state: dict[str, Any] = {}
        self.output: list[Record] = []
        self.refill: deque[tuple[str, Record]] = deque()
        self.parts: deque[tuple[int, Part]] = deque()
        self._attempt: int | None = None
        self._arrived: set[str] = set()
        self._part: Part | None = None

    def steps(self) -> Iterator[tuple[str, str]]:
        """Yield the steps that the task can do now: each is an action ("save", "emit", "refill" or "take"), and the
        split or the sender that it concerns.
        """
        if self.parts:
            yield "save", ""
        if splits := self.node.splits:
            yield from (("emit", split) for split, offset in self.state.items() if offset < len(splits[split]))
        if self.refill:  # records that were in transit at the snapshot are older than those in the channels
            yield "refill", ""
        else:
            yield from (("take", one) for one, channel in self.inputs.items() if channel and not self._blocks(one))

    def do(self, act: str, place: str) -> Sequence[Record | Barrier]:
        """Do the action ``act`` with the split or the sender ``place``, as `steps` yields them, except "save". Return
        the records and barriers to send on.
        """
        if act == "emit" and self.node.splits:
            self.state[place] += 1
            return [self.node.splits[place][self.state[place] - 1]]
        if act == "refill":
            return self._handle(self.refill.popleft()[1])
        first = self.inputs[place].popleft()
        if isinstance(first, Barrier):
            return self._meet(first, place)
        if self._part is not None and place not in self._arrived:
            self._part.log.append((place, copy.deepcopy(first)))  # the record was sent before the snapshot
        return self._handle(first)

    def _handle(self, record: Record) -> list[Record]:
        if self.node.process is None:
            self.output.append(record)
            return []
        self.state[record.key], sent = self.node.process(self.state.get(record.key), record)
        return [Record(*one) for one in sent]

    def _blocks(self, sender: str) -> bool:
        first = self.inputs[sender][0]
        if isinstance(first, Barrier):  # the barrier of the next attempt waits until this attempt has ended
            return self._attempt not in (None, first)
        return self.alignment is Alignment.EXACTLY_ONCE and self._part is None and sender in self._arrived

    def _meet(self, barrier: Barrier, sender: str) -> list[Record | Barrier]:
        """Handle a barrier from ``sender``. The barrier with which the alignment lets the task take its snapshot is
        returned, to be sent on; for any other barrier the result is empty. The task's part of the snapshot is complete
        once every input has delivered the barrier.
        """
        self._attempt, passed = barrier, list[Record | Barrier]()
        self._arrived.add(sender)
        waited_for = set() if self.alignment is Alignment.UNALIGNED else self.inputs.keys() - self.back
        if self._part is None and waited_for <= self._arrived:
            self._part = Part(copy.deepcopy(self.state), [], list(self.output))
            passed.append(barrier)
        if self._part is not None and self.inputs.keys() == self._arrived:
            self.parts.append((barrier, self._part))
            self._attempt, self._arrived, self._part = None, set(), None
        return passed

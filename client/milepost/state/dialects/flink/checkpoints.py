"""Flink checkpoints: the commits of all tasks' state stores, in one document that a compare-and-set can publish. The id
of a commit is a digest of its content and its predecessors, so the document proves all state of the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from milepost.state.dialects.flink.descriptors import base_kind
from milepost.state.errors import InvalidUse, StateDamaged
from milepost.state.key_groups import KeyGroups
from milepost.state.store import StateFiles, StateStoreId

FORMAT = 1


@dataclass(frozen=True)
class TaskSnapshot:
    """A task's report on its part of a checkpoint. It can be pickled, or sent as the JSON of `to_document`.
    ``timestamp`` is the time of the checkpoint, in milliseconds since 1970. ``states`` has the kind of each state, by
    the state's column family, and ``lists`` the number of elements of each operator list.
    """

    operator: str
    checkpoint: int
    timestamp: int
    task: int
    tasks: int
    key_groups: int
    store: StateStoreId
    version: int
    id: str
    states: Mapping[str, str]
    lists: Mapping[str, int]

    def to_document(self) -> dict[str, Any]:
        """Return the task's report as a JSON document."""
        store = {"operator": self.store.operator, "partition": self.store.partition, "name": self.store.name}
        return {**vars(self), "store": store, "states": dict(self.states), "lists": dict(self.lists)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TaskSnapshot:
        """Return the task's report from a document that `to_document` made. For another document, raises `InvalidUse`
        or an error of Python, such as ``KeyError``.
        """
        numbers = {
            name: int(document[name]) for name in ("checkpoint", "timestamp", "task", "tasks", "key_groups", "version")
        }
        states = {str(family): str(kind) for family, kind in document["states"].items()}
        for kind in states.values():
            base_kind(kind)
        KeyGroups(numbers["key_groups"]).groups_of(numbers["task"], numbers["tasks"])
        return cls(
            operator=str(document["operator"]),
            store=StateStoreId(**document["store"]),
            id=str(document["id"]),
            states=states,
            lists={str(family): int(length) for family, length in document["lists"].items()},
            **numbers,
        )


@dataclass(frozen=True)
class Checkpoint:
    """One consistent checkpoint of one or several operators: for each operator, the reports of all its tasks, in the
    order of the tasks. `Checkpoint.of` makes a checkpoint of these reports. A checkpoint counts once it is published.
    """

    id: int
    timestamp: int
    operators: Mapping[str, tuple[TaskSnapshot, ...]]

    @classmethod
    def of(cls, snapshots: Iterable[TaskSnapshot]) -> Checkpoint:
        """Combine the tasks' reports on one checkpoint. Raises `InvalidUse` unless each task of each operator has one
        report, and all reports are on the same checkpoint.
        """
        operators: dict[str, list[TaskSnapshot]] = {}
        for one in snapshots:
            operators.setdefault(one.operator, []).append(one)
        found = {name: tuple(sorted(tasks, key=lambda one: one.task)) for name, tasks in sorted(operators.items())}
        moments = {(one.checkpoint, one.timestamp) for tasks in found.values() for one in tasks}
        if len(moments) != 1:
            raise InvalidUse(f"a checkpoint is made of snapshots of one checkpoint, not of {len(moments)}")
        for name, tasks in found.items():
            _check_operator(name, tasks)
        stores = [one.store for tasks in found.values() for one in tasks]
        if len(set(stores)) != len(stores):
            raise InvalidUse("two tasks have the same store: operators have different numbers or names")
        ((id, timestamp),) = moments
        return cls(id, timestamp, found)

    def states_of(self, operator: str) -> dict[str, str]:
        """Return the kinds of all states of an operator, each under the name of the state's column family."""
        return {family: kind for one in self.operators[operator] for family, kind in one.states.items()}

    def to_json(self) -> bytes:
        """Return the document to publish, which `from_json` reads. Equal checkpoints have equal bytes."""
        tasks = [one.to_document() for tasks in self.operators.values() for one in tasks]
        inner = {"format": FORMAT, "tasks": tasks}
        return json.dumps({**inner, "sha256": _digest(inner)}, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Checkpoint:
        """Read a published checkpoint from ``data``. Raises `StateDamaged` if the bytes are not those that were
        published.
        """
        try:
            document = json.loads(data)
            digest = document.pop("sha256")
            if digest != _digest(document):
                raise ValueError("it has another digest")
            if document["format"] != FORMAT:
                raise ValueError(f"it is of format {document['format']}, and this version knows {FORMAT}")
            return cls.of([TaskSnapshot.from_document(one) for one in document["tasks"]])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidUse) as error:
            raise StateDamaged("the document of a checkpoint", str(error)) from error


def discard(files: StateFiles, checkpoint: Checkpoint, keep: Iterable[Checkpoint]) -> int:
    """Delete the state stores of a checkpoint that no checkpoint in ``keep`` uses, and return the number of deleted
    files. There are such stores after the number of an operator's tasks has changed, since the new tasks continue in
    new stores. The call may be repeated after a failure.
    """
    kept = {one.store for other in keep for tasks in other.operators.values() for one in tasks}
    doomed = {one.store for tasks in checkpoint.operators.values() for one in tasks} - kept
    names = [info.name for store in doomed for info in files.list(store.directory)]
    for name in names:
        files.delete(name)
    return len(names)


def _check_operator(name: str, tasks: tuple[TaskSnapshot, ...]) -> None:
    expected = tasks[0]
    if [one.task for one in tasks] != list(range(expected.tasks)):
        raise InvalidUse(f"of the {expected.tasks} tasks of {name}, these told of it: {[one.task for one in tasks]}")
    kinds: dict[str, str] = {}
    for one in tasks:
        if (one.tasks, one.key_groups) != (expected.tasks, expected.key_groups):
            raise InvalidUse(f"the tasks of {name} do not agree on the number of tasks and of key groups")
        for family, kind in one.states.items():
            if kinds.setdefault(family, kind) != kind:
                raise InvalidUse(f"the tasks of {name} have different kinds of the state {family}")


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

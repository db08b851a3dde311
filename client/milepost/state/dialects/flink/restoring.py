"""Restores a task from a checkpoint that another number of tasks wrote: copies the task's share into its own state
store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from milepost.state.dialects.flink.checkpoints import TaskSnapshot
from milepost.state.dialects.flink.descriptors import KEYED, Kind, base_kind
from milepost.state.dialects.flink.operator_store import INDEX, VALUE_KEY, Elements
from milepost.state.dialects.flink.task_store import TaskStore
from milepost.state.errors import StateDamaged
from milepost.state.key_groups import KeyGroups, range_of_groups
from milepost.state.store import RangeReader

PART_BYTES = 32 * 1024 * 1024
"""The number of copied bytes after which the store is committed, since changes stay in memory until a commit. No
checkpoint names these commits, so they do not count if the task ends before its first snapshot.
"""

Open = Callable[[TaskSnapshot], RangeReader]
"""A function that opens the commit of a task's snapshot, to read ranges of it."""


class Takeover:
    """Copies one task's share of a checkpoint into the task's state store ``into``. ``before`` has the reports of the
    tasks that wrote the checkpoint. They are read in the order of these tasks, and only those with key groups or list
    elements for this task. Raises `StateDamaged` if a state store does not have what its report says.
    """

    def __init__(self, before: Sequence[TaskSnapshot], task: int, tasks: int, into: TaskStore, open_one: Open) -> None:
        self._before = before
        self._task = task
        self._tasks = tasks
        self._into = into
        self._open = open_one
        self._readers: dict[int, RangeReader] = {}
        self._bytes = 0

    def all_states(self) -> dict[str, list[bytes]]:
        """Copy the task's share of all states. Return the single values that a descriptor must merge and split first,
        by column family: all values that the tasks of the checkpoint wrote.
        """
        kinds = {family: base_kind(kind) for one in self._before for family, kind in one.states.items()}
        waiting: dict[str, list[bytes]] = {}
        for family, kind in kinds.items():
            written = next(one.states[family] for one in self._before if family in one.states)
            self._into.register(family, written, multiple=kind is Kind.LIST)
            if family.startswith(KEYED):
                self._keyed(family, kind)
            elif kind is Kind.SPLIT_LIST:
                self._split_list(family)
            elif kind is Kind.UNION_LIST:
                self.union_list(family)
            elif kind is Kind.BROADCAST:
                self._broadcast(family)
            else:
                waiting[family] = [value for _, value in self._all(family)]
        return {family: values for family, values in waiting.items() if values}

    def union_lists(self) -> None:
        """Copy only the union lists. Unlike other states, these are copied even if the number of tasks stays the same,
        because a restore gives each task the elements of all tasks.
        """
        for family in {family: None for one in self._before for family in one.states}:
            if any(base_kind(one.states.get(family, Kind.VALUE.value)) is Kind.UNION_LIST for one in self._before):
                self._into.register(family, Kind.UNION_LIST.value)
                self.union_list(family)

    def union_list(self, family: str) -> None:
        """Copy the elements of one union list from all tasks of the checkpoint."""
        elements = Elements(self._into, family)
        elements.clear()
        elements.add(
            value
            for number, one in enumerate(self._before)
            for value in self._elements(number, family, range(one.lists.get(family, 0)))
        )
        elements.before_snapshot()

    def _keyed(self, family: str, kind: Kind) -> None:
        groups = KeyGroups(self._before[0].key_groups)
        for number, moved in groups.moved(self._task, self._tasks, len(self._before)).items():
            if family not in self._before[number].states:
                continue
            start, end = range_of_groups(moved)
            if kind is Kind.LIST:
                for key, values in self._reader(number).range_scan_lists(start, end, family):
                    self._into.store.put_list(key, values, family)
                    self._count(len(key) + sum(map(len, values)))
            else:
                for key, value in self._reader(number).range_scan(start, end, family):
                    self._into.store.put(key, value, family)
                    self._count(len(key) + len(value))

    def _split_list(self, family: str) -> None:
        lengths = [one.lists.get(family, 0) for one in self._before]
        place = 0
        for number, piece in even_split(lengths, self._task, self._tasks):
            for value in self._elements(number, family, piece):
                self._into.store.put(INDEX.encode(place), value, family)
                self._count(len(value))
                place += 1

    def _broadcast(self, family: str) -> None:
        number = self._task % len(self._before)
        if family not in self._before[number].states:
            number = next(number for number, one in enumerate(self._before) if family in one.states)
        for key, value in self._reader(number).range_scan(None, None, family):
            self._into.store.put(key, value, family)
            self._count(len(key) + len(value))

    def _all(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys and values that the tasks of the checkpoint wrote for a state with a single value."""
        for number, one in enumerate(self._before):
            if family in one.states:
                yield from self._reader(number).range_scan(VALUE_KEY, VALUE_KEY + b"\0", family)

    def _elements(self, number: int, family: str, piece: range) -> Iterator[bytes]:
        if not piece:
            return
        start, end = INDEX.encode(piece.start), INDEX.encode(piece.stop)
        found = 0
        for _, value in self._reader(number).range_scan(start, end, family):
            yield value
            found += 1
        if found != len(piece):
            one = self._before[number]
            raise StateDamaged(
                one.store.directory, f"{family} has {found} of the {len(piece)} elements that its task told of"
            )

    def _reader(self, number: int) -> RangeReader:
        found = self._readers.get(number)
        if found is None:
            found = self._readers[number] = self._open(self._before[number])
        return found

    def _count(self, more: int) -> None:
        self._bytes += more
        if self._bytes >= PART_BYTES:
            self._into.commit()
            self._bytes = 0


def even_split(lengths: Sequence[int], task: int, tasks: int) -> Iterator[tuple[int, range]]:
    """Iterate over the pieces of several lists that the task number ``task`` of ``tasks`` gets; each piece is the
    number of a list, and a range of positions in it. ``lengths`` has the lengths of the lists. They are joined, and
    divided in order into one run of elements for each task; the runs differ in length by at most one.
    """
    total = sum(lengths)
    begin, end = task * total // tasks, (task + 1) * total // tasks
    start = 0
    for number, length in enumerate(lengths):
        piece = range(max(begin, start) - start, min(end, start + length) - start)
        if piece:
            yield number, piece
        start += length

"""Key groups: the fixed number of parts that keys are put in, so that any number of tasks can go on from any state.

A key is in one group for ever, and each task has a range of groups. So when the number of tasks changes, groups move,
and no key has to be looked at. This is Flink's division of keyed state
(``org.apache.flink.runtime.state.KeyGroupRangeAssignment``), with CRC-32 in the place of its hash: Spark SQL computes
the same with ``crc32(key) % 128``, so a frame can be divided without a call to Python.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from zlib import crc32

DEFAULT_KEY_GROUPS = 128
MOST_KEY_GROUPS = 32768


@dataclass(frozen=True)
class KeyGroups:
    """A division of keys into ``count`` groups, 1 to 32768.

    The count is a job's for ever: with another one, keys would be in other groups than their state. No more tasks than
    groups can be at work.
    """

    count: int = DEFAULT_KEY_GROUPS

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_KEY_GROUPS:
            raise ValueError(f"there can be 1 to {MOST_KEY_GROUPS} key groups, not {self.count}")

    def group(self, key: bytes) -> int:
        """Return the group of an encoded ``key``, from 0 (Flink's ``assignToKeyGroup``)."""
        return crc32(key) % self.count

    def groups_of(self, task: int, tasks: int) -> range:
        """Return the groups of the task number ``task`` of ``tasks``.

        This is Flink's ``computeKeyGroupRangeForOperatorIndex``. The ranges of all tasks are side by side, cover each
        group once, and differ in size by one at most.
        """
        self._check(tasks)
        if not 0 <= task < tasks:
            raise ValueError(f"there is no task {task} of {tasks}")
        return range(_first(task, tasks, self.count), _first(task + 1, tasks, self.count))

    def task_of(self, group: int, tasks: int) -> int:
        """Return which of ``tasks`` tasks has ``group`` (Flink's ``computeOperatorIndexForKeyGroup``)."""
        self._check(tasks)
        if not 0 <= group < self.count:
            raise ValueError(f"there is no group {group} of {self.count}")
        return group * tasks // self.count

    def moved(self, task: int, tasks: int, before: int) -> dict[int, range]:
        """Return which groups this task of ``tasks`` takes over from each of the ``before`` tasks that there were."""
        mine = self.groups_of(task, tasks)
        starts = [_first(one, before, self.count) for one in range(before)]
        found = {}
        for one in range(bisect_right(starts, mine.start) - 1, before):
            theirs = self.groups_of(one, before)
            if theirs.start >= mine.stop:
                break
            found[one] = range(max(mine.start, theirs.start), min(mine.stop, theirs.stop))
        return found

    def _check(self, tasks: int) -> None:
        if not 1 <= tasks <= self.count:
            raise ValueError(f"{self.count} key groups are for 1 to {self.count} tasks, not {tasks}")


def _first(task: int, tasks: int, count: int) -> int:
    """Return the first group of a task: the smallest whose share of ``tasks`` falls to it."""
    return (task * count + tasks - 1) // tasks

"""Key groups: the fixed number of parts that keys are divided into, so that any number of tasks can continue from any
state.

A key always stays in one group, and each task has a range of groups. When the number of tasks changes, whole groups
move between tasks, and no task examines single keys. This is Flink's division of keyed state
(``org.apache.flink.runtime.state.KeyGroupRangeAssignment``), with CRC-32 in place of Flink's hash. Spark SQL computes
the group as ``crc32(key) % 128``, so it can divide a frame without a call to Python.

In a store, a key is its group in two bytes, the highest first, and then its own bytes, as in Flink's RocksDB state
backend. So a range of groups is a range of stored keys. If more bytes follow the key, such as the key of a map entry,
the key is encoded with an end mark, and all entries of one key are adjacent.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from zlib import crc32

from milepost.state.coders.framing import read_escaped, write_escaped
from milepost.state.errors import CoderError

DEFAULT_KEY_GROUPS = 128
MOST_KEY_GROUPS = 32768

GROUP_BYTES = 2
"""The number of bytes of a key group. They can hold 32768, the largest number of groups."""


@dataclass(frozen=True)
class KeyGroups:
    """A division of keys into ``count`` key groups, 1 to 32768. The count never changes for a job: with another count,
    keys would be in other groups than their state. At most ``count`` tasks can work.
    """

    count: int = DEFAULT_KEY_GROUPS

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_KEY_GROUPS:
            raise ValueError(f"there can be 1 to {MOST_KEY_GROUPS} key groups, not {self.count}")

    def group(self, key: bytes) -> int:
        """Return the number of the key group of an encoded ``key``, from 0 (Flink's ``assignToKeyGroup``)."""
        return crc32(key) % self.count

    def groups_of(self, task: int, tasks: int) -> range:
        """Return the key groups of the task number ``task`` of ``tasks``. This is Flink's
        ``computeKeyGroupRangeForOperatorIndex``. The ranges of all tasks are adjacent, cover each group once, and
        differ in size by at most one.
        """
        self._check(tasks)
        if not 0 <= task < tasks:
            raise ValueError(f"there is no task {task} of {tasks}")
        return range(_first(task, tasks, self.count), _first(task + 1, tasks, self.count))

    def task_of(self, group: int, tasks: int) -> int:
        """Return the number of the task, of ``tasks``, that has the key group ``group`` (Flink's
        ``computeOperatorIndexForKeyGroup``).
        """
        self._check(tasks)
        if not 0 <= group < self.count:
            raise ValueError(f"there is no group {group} of {self.count}")
        return group * tasks // self.count

    def moved(self, task: int, tasks: int, before: int) -> dict[int, range]:
        """Return where the state of the task number ``task`` of ``tasks`` comes from, if ``before`` tasks wrote the
        state: for the number of each such earlier task, the range of key groups to take over from it.
        """
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
    """Return the first key group of a task: the smallest group that `KeyGroups.task_of` assigns to it."""
    return (task * count + tasks - 1) // tasks


def with_group(groups: KeyGroups, key: bytes) -> bytes:
    """Return the stored form of an encoded ``key``: its key group in two bytes, and then the key."""
    return groups.group(key).to_bytes(GROUP_BYTES, "big") + key


def without_group(kept: bytes) -> tuple[int, bytes]:
    """Return the key group and the encoded key of a stored key that `with_group` made. Raises `CoderError` if it is too
    short.
    """
    if len(kept) < GROUP_BYTES:
        raise CoderError("a key of a store with key groups begins with two bytes of its group")
    return int.from_bytes(kept[:GROUP_BYTES], "big"), kept[GROUP_BYTES:]


def entries_of(groups: KeyGroups, key: bytes) -> bytes:
    """Return the bytes with which the stored keys of all map entries of an encoded ``key`` begin, and those of no other
    key.
    """
    return groups.group(key).to_bytes(GROUP_BYTES, "big") + write_escaped(key)


def split_entry(kept: bytes) -> tuple[int, bytes, bytes]:
    """Split the stored key ``kept`` of a map entry, which begins as `entries_of` says: return the key group, the
    encoded key, and the bytes behind the key. Raises `CoderError` for other bytes.
    """
    group, rest = without_group(kept)
    key, end = read_escaped(rest, 0)
    return group, key, rest[end:]


def range_of_groups(groups: range) -> tuple[bytes, bytes]:
    """Return the range of stored keys that a range of key groups covers: the first key it can have, and the first key
    after it.
    """
    if groups.step != 1 or not 0 <= groups.start <= groups.stop:
        raise ValueError(f"these are no groups side by side: {groups}")
    return groups.start.to_bytes(GROUP_BYTES, "big"), groups.stop.to_bytes(GROUP_BYTES, "big")

"""The values in the contract of state stores: ids of stores and commits, the changes of a commit, and metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from milepost.state.errors import InvalidUse

DEFAULT_FAMILY = "default"
"""The column family that every store has (``StateStore.DEFAULT_COL_FAMILY_NAME``)."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}\Z")


@dataclass(frozen=True, slots=True)
class StateStoreId:
    """The id of a state store: its operator, its partition and its name (Spark's ``StateStoreId``).

    Spark's id also contains the location of the checkpoint (``checkpointRootLocation``); here the `StateFiles` of a
    provider have it.
    """

    operator: int
    partition: int
    name: str = "default"

    def __post_init__(self) -> None:
        if self.operator < 0 or self.partition < 0:
            raise InvalidUse("the numbers of an operator and of a partition are not negative")
        if not _NAME.match(self.name):
            raise InvalidUse(
                "the name of a store has 1 to 200 of the characters A-Z a-z 0-9 . _ -, and no dot in front"
            )

    @property
    def directory(self) -> str:
        """The directory of the state store's files, relative to the root of its `StateFiles`."""
        return f"{self.operator}/{self.partition}/{self.name}"


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A task's report to the driver on the commit of a state store (Spark's ``StateStoreCheckpointInfo``).

    ``id`` is the id of the commit, and ``base_id`` the id of the commit before it; None at version 1.
    """

    partition: int
    version: int
    id: str
    base_id: str | None


class ChangeKind(Enum):
    """The kind of a change to a key (Spark's ``RecordType``)."""

    PUT = "put"
    REMOVE = "remove"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one key in one commit.

    ``values`` has the value that was put or, in a column family with several values for each key, all values that were
    put or appended.
    """

    version: int
    family: str
    kind: ChangeKind
    key: bytes
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class StateStoreMetrics:
    """Metrics of one state store, or the sums of the metrics of several state stores (Spark's ``StateStoreMetrics``).

    ``num_keys`` is the number of keys in the version at which the store was opened or, after a commit, in the new
    version.
    """

    num_keys: int
    memory_used_bytes: int
    custom: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def combine(all_metrics: Iterable[StateStoreMetrics]) -> StateStoreMetrics:
        """Add up the metrics of several state stores (Spark's ``StateStoreMetrics.combine``)."""
        keys = memory = 0
        custom: Counter[str] = Counter()
        for one in all_metrics:
            keys += one.num_keys
            memory += one.memory_used_bytes
            custom.update(one.custom)
        return StateStoreMetrics(keys, memory, dict(custom))


@dataclass(frozen=True)
class ExecutorLocation:
    """An executor, and the host on which it runs, as in Spark's ``ExecutorCacheTaskLocation``.

    Here an executor is a process that holds loaded state in its own memory: a Python worker process, not the executor's
    JVM.
    """

    host: str
    executor: str

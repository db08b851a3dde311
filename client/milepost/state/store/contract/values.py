"""What the contract speaks of: names of stores and commits, what a commit changed, and numbers about a store."""

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
    """A store is one of an operator's in one partition (``StateStoreId``).

    Where the checkpoint is (``checkpointRootLocation``) belongs to the files that a provider is given.
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
        """The directory of the store's files, below that of all state."""
        return f"{self.operator}/{self.partition}/{self.name}"


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """What a task tells its driver of a commit (``StateStoreCheckpointInfo``).

    ``id`` is the commit's own, and ``base_id`` that of the commit it goes on from, None at the first version.
    """

    partition: int
    version: int
    id: str
    base_id: str | None


class ChangeKind(Enum):
    """What was done to a key (``RecordType``)."""

    PUT = "put"
    REMOVE = "remove"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit did to one key.

    ``values`` has the value that was put; of a family with several values for each key, all that were put or appended.
    """

    version: int
    family: str
    kind: ChangeKind
    key: bytes
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class StateStoreMetrics:
    """Numbers about one store, or about several together (``StateStoreMetrics``).

    ``num_keys`` is the number of keys in the version that the store was opened at, or, once it was committed, in the
    new one.
    """

    num_keys: int
    memory_used_bytes: int
    custom: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def combine(all_metrics: Iterable[StateStoreMetrics]) -> StateStoreMetrics:
        """Add up the numbers of several stores (``StateStoreMetrics.combine``)."""
        keys = memory = 0
        custom: Counter[str] = Counter()
        for one in all_metrics:
            keys += one.num_keys
            memory += one.memory_used_bytes
            custom.update(one.custom)
        return StateStoreMetrics(keys, memory, dict(custom))


@dataclass(frozen=True)
class ExecutorLocation:
    """An executor, and the host that it runs on, as Spark's ``ExecutorCacheTaskLocation`` has them.

    Whatever has state of its own in memory is an executor here: a Python worker process, rather than the JVM beside it.
    """

    host: str
    executor: str

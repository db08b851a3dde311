"""What a function is that has state, and how it is told of checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from milepost.state.dialects.flink.descriptors import OperatorStateDescriptor
from milepost.state.dialects.flink.keyed_store import KeyedStateStore
from milepost.state.dialects.flink.operator_store import OperatorStateStore

T = TypeVar("T")


@dataclass(frozen=True)
class InitializationContext:
    """What a function registers its states with (``FunctionInitializationContext``).

    ``restored_checkpoint`` is the id of the checkpoint that the task goes on from, None if it begins.
    """

    task: int
    tasks: int
    restored_checkpoint: int | None
    operator_state: OperatorStateStore
    keyed_state: KeyedStateStore

    @property
    def is_restored(self) -> bool:
        """Whether the task goes on from a checkpoint (``isRestored``)."""
        return self.restored_checkpoint is not None


@dataclass(frozen=True)
class SnapshotContext:
    """Which checkpoint a snapshot is for (``FunctionSnapshotContext``); the time is in milliseconds since 1970."""

    checkpoint_id: int
    timestamp: int


class CheckpointedFunction(ABC):
    """A function that keeps its state in states that it registers (``CheckpointedFunction``)."""

    @abstractmethod
    def initialize_state(self, context: InitializationContext) -> None:
        """Register the states, and take up what is in them. Called once, before anything else."""

    @abstractmethod
    def snapshot_state(self, context: SnapshotContext) -> None:
        """Put into the states what is not there yet. Called before each snapshot, and again if that fails."""


class Checkpointed(ABC, Generic[T]):
    """A function that gives its whole state for each snapshot (``Checkpointed`` of Flink's first releases)."""

    @property
    @abstractmethod
    def descriptor(self) -> OperatorStateDescriptor[T]:
        """How the state is called, encoded, and split and merged."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> T:
        """Return the state (``snapshotState``). Called for each snapshot, and again if that fails."""

    @abstractmethod
    def restore_state(self, state: T) -> None:
        """Take up a state (``restoreState``). Called once, before anything else, if there is one."""


class CheckpointListener:
    """What wants to be told what became of checkpoints (``CheckpointListener``). Either call may never come: a task
    can end before it.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Learn that the checkpoint was published (``notifyCheckpointComplete``)."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Learn that the checkpoint was given up (``notifyCheckpointAborted``). A later one may have its state."""

"""The interfaces of functions with state, and of listeners to checkpoints."""

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
    """The context in which a function registers its states (``FunctionInitializationContext``).

    ``restored_checkpoint`` is the id of the checkpoint from which the task continues, None for a new task.
    """

    task: int
    tasks: int
    restored_checkpoint: int | None
    operator_state: OperatorStateStore
    keyed_state: KeyedStateStore

    @property
    def is_restored(self) -> bool:
        """Whether the task continues from a checkpoint (``isRestored``)."""
        return self.restored_checkpoint is not None


@dataclass(frozen=True)
class SnapshotContext:
    """The checkpoint for which a snapshot is taken (``FunctionSnapshotContext``); the time is in milliseconds since
    1970.
    """

    checkpoint_id: int
    timestamp: int


class CheckpointedFunction(ABC):
    """A function that keeps its state in states that it registers (``CheckpointedFunction``)."""

    @abstractmethod
    def initialize_state(self, context: InitializationContext) -> None:
        """Register the states, and read their content. Called once, before any other method."""

    @abstractmethod
    def snapshot_state(self, context: SnapshotContext) -> None:
        """Write the rest of the function's state into the states. Called before each snapshot, and again if that
        fails.
        """


class Checkpointed(ABC, Generic[T]):
    """A function that returns its whole state for each snapshot (``Checkpointed`` of Flink's first releases)."""

    @property
    @abstractmethod
    def descriptor(self) -> OperatorStateDescriptor[T]:
        """The name of the state, its encoding, and its split and merge functions."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> T:
        """Return the state (``snapshotState``). Called for each snapshot, and again if that fails."""

    @abstractmethod
    def restore_state(self, state: T) -> None:
        """Take a restored state (``restoreState``). Called once, before any other method, if there is one."""


class CheckpointListener:
    """Listens to the outcome of checkpoints (``CheckpointListener``). Either call may never come: a task can end before
    it.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that the checkpoint was published (``notifyCheckpointComplete``)."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Note that the checkpoint was abandoned (``notifyCheckpointAborted``). A later one may contain its state."""

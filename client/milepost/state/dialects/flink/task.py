"""One task of an operator, with Flink's interface, from its start or restore to its end, and its snapshots. Also the
interfaces of the function that a task calls, and of listeners to checkpoints.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, TypeVar

from milepost.state.cells.lifetime import Clock
from milepost.state.coders import BytesCoder, Coder
from milepost.state.dialects.flink.checkpoints import Checkpoint, TaskSnapshot
from milepost.state.dialects.flink.descriptors import OperatorStateDescriptor
from milepost.state.dialects.flink.keyed_store import KeyedStateStore
from milepost.state.dialects.flink.operator_store import OperatorStateStore
from milepost.state.dialects.flink.restoring import Takeover
from milepost.state.dialects.flink.task_store import TaskStore
from milepost.state.errors import Incompatible, InvalidUse
from milepost.state.key_groups import KeyGroups
from milepost.state.store import FileStateStoreProvider, ProviderSettings, RangeReader, StateFiles, StateStoreId

T = TypeVar("T")


@dataclass(frozen=True)
class InitializationContext:
    """The context in which a function registers its states (Flink's ``FunctionInitializationContext``).
    ``restored_checkpoint`` is the id of the checkpoint from which the task continues, None for a new task.
    """

    task: int
    tasks: int
    restored_checkpoint: int | None
    operator_state: OperatorStateStore
    keyed_state: KeyedStateStore

    @property
    def is_restored(self) -> bool:
        """Whether the task continues from a checkpoint (Flink's ``isRestored``)."""
        return self.restored_checkpoint is not None


@dataclass(frozen=True)
class SnapshotContext:
    """The id of the checkpoint of a snapshot, and its time in milliseconds since 1970 (Flink's
    ``FunctionSnapshotContext``).
    """

    checkpoint_id: int
    timestamp: int


class CheckpointedFunction(ABC):
    """A function of an operator that keeps its state in states that it registers (Flink's ``CheckpointedFunction``)."""

    @abstractmethod
    def initialize_state(self, context: InitializationContext) -> None:
        """Register the states, and read their content. Called once, before any other method."""

    @abstractmethod
    def snapshot_state(self, context: SnapshotContext) -> None:
        """Write the data that the function's states do not contain yet into these states. Called before each snapshot,
        and again if the snapshot fails.
        """


class Checkpointed(ABC, Generic[T]):
    """A function that returns its whole state for each snapshot (``Checkpointed`` of Flink's first releases)."""

    @property
    @abstractmethod
    def descriptor(self) -> OperatorStateDescriptor[T]:
        """The name of the state, its encoding, and its split and merge functions."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> T:
        """Return the function's whole state (Flink's ``snapshotState``). Called for each snapshot, and again if the
        snapshot fails.
        """

    @abstractmethod
    def restore_state(self, state: T) -> None:
        """Take a restored state (Flink's ``restoreState``). Called once, before any other method, if the checkpoint has
        a state of this function.
        """


class CheckpointListener:
    """Receives the outcome of each checkpoint (Flink's ``CheckpointListener``). A listener may miss an outcome, since a
    task can end before the call.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that the checkpoint was published (Flink's ``notifyCheckpointComplete``)."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Note that the checkpoint was abandoned (Flink's ``notifyCheckpointAborted``). A later checkpoint contains its
        changes.
        """


def milliseconds() -> int:
    """Return the milliseconds since 1970, by the clock of this machine."""
    return time.time_ns() // 1_000_000


class OperatorTask:
    """One of the ``tasks`` parallel tasks of an operator, with its keyed state and its operator state.

    All state of the task is in one state store, so one commit is a consistent snapshot of it. `snapshot` commits, and
    returns the report for a `Checkpoint`. The coordinator of the tasks publishes the checkpoint, and calls
    `notify_checkpoint_complete` of each task. A task that is made with a published checkpoint continues from it, with
    the same or another number of tasks, and ignores later commits. A task belongs to one thread.
    """

    def __init__(
        self,
        files: StateFiles,
        name: str,
        task: int,
        tasks: int,
        *,
        function: CheckpointedFunction | Checkpointed[Any] | None = None,
        key_coder: Coder[Any] | None = None,
        restored: Checkpoint | None = None,
        operator: int = 0,
        key_groups: KeyGroups | None = None,
        settings: ProviderSettings | None = None,
        clock: Clock = milliseconds,
    ) -> None:
        """Open the state, and let ``function`` register and read its states.

        ``files`` is the storage of all state, and ``operator`` is the number of the operator there; ``name`` is the
        operator's name in checkpoints. ``restored`` is the checkpoint from which the task continues; None for a new
        task. ``key_coder`` encodes the keys of keyed state; by default keys are bytes. ``settings`` choose whether open
        state is in memory or in RocksDB. ``clock`` is for times to live.

        Raises `Incompatible` if the checkpoint does not contain the operator, or has it with another number of key
        groups; `StateDamaged`, `VersionNotFound` and `FilesError` if the state cannot be read.
        """
        self._function = function
        self._groups = key_groups or KeyGroups()
        self._name, self._task, self._of = name, task, tasks
        mine = self._checked_groups()
        self._last = -1 if restored is None else restored.id
        before = self._before(restored)
        settings = settings or ProviderSettings()
        same = before is not None and len(before) == tasks
        if before is not None and same:
            store, version, id, states = before[task].store, before[task].version, before[task].id, before[task].states
        else:
            generation = restored.id if restored is not None else 0
            store, version, id, states = StateStoreId(operator, task, f"{name}-{tasks}-{generation}"), 0, None, {}
        provider = FileStateStoreProvider(files, settings)
        provider.init(store)
        self._tasks = TaskStore(provider, states, version, id)
        try:
            waiting: dict[str, list[bytes]] = {}
            if before is not None:
                takeover = Takeover(before, task, tasks, self._tasks, _Readers(files, settings))
                if same:
                    takeover.union_lists()
                else:
                    waiting = takeover.all_states()
            self.operator_state = OperatorStateStore(self._tasks, task, tasks, waiting)
            self.keyed_state = KeyedStateStore(self._tasks, key_coder or BytesCoder(), self._groups, mine, clock)
            self._initialize(restored.id if restored is not None else None)
        except BaseException:
            self._tasks.close()
            raise

    def snapshot(self, checkpoint_id: int, timestamp: int) -> TaskSnapshot:
        """Commit the state for a checkpoint; ``timestamp`` is the time of the checkpoint in milliseconds since 1970.

        Each id must be greater than the ids before it. Raises the errors of `StateStore.commit`: after `FilesError`
        nothing was written, and after `CommitUnknown` the call may be repeated. After `EngineFailed`, restore the task
        from the last published checkpoint. An exception of the function reaches the caller, and nothing is committed. A
        commit counts once a published checkpoint names it.
        """
        if checkpoint_id <= self._last:
            raise InvalidUse(f"the ids of checkpoints grow, and {self._last} was before {checkpoint_id}")
        if isinstance(self._function, CheckpointedFunction):
            self._function.snapshot_state(SnapshotContext(checkpoint_id, timestamp))
        elif isinstance(self._function, Checkpointed):
            value = self._function.snapshot_state(checkpoint_id, timestamp)
            self.operator_state.state(self._function.descriptor).update(value)
        self.keyed_state.before_snapshot()
        lists = self.operator_state.before_snapshot()
        states = dict(self._tasks.states)
        info = self._tasks.commit()
        self._last = checkpoint_id
        return TaskSnapshot(
            operator=self._name,
            checkpoint=checkpoint_id,
            timestamp=timestamp,
            task=self._task,
            tasks=self._of,
            key_groups=self._groups.count,
            store=self._tasks.id,
            version=info.version,
            id=info.id,
            states=states,
            lists=lists,
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Pass on to the task's function that a checkpoint was published."""
        if isinstance(self._function, CheckpointListener):
            self._function.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Pass on to the task's function that a checkpoint was abandoned. The next checkpoint contains the task's
        state.
        """
        if isinstance(self._function, CheckpointListener):
            self._function.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """End the task. Uncommitted changes are lost."""
        self._tasks.close()

    def __enter__(self) -> OperatorTask:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked_groups(self) -> range:
        try:
            return self._groups.groups_of(self._task, self._of)
        except ValueError as error:
            raise InvalidUse(str(error)) from error

    def _before(self, restored: Checkpoint | None) -> tuple[TaskSnapshot, ...] | None:
        if restored is None:
            return None
        before = restored.operators.get(self._name)
        if before is None:
            names = ", ".join(restored.operators)
            raise Incompatible(f"checkpoint {restored.id} has no operator {self._name!r}, but {names}")
        if before[0].key_groups != self._groups.count:
            raise Incompatible(
                f"the state of {self._name!r} is in {before[0].key_groups} key groups, and not in {self._groups.count}"
            )
        return before

    def _initialize(self, restored: int | None) -> None:
        if isinstance(self._function, CheckpointedFunction):
            context = InitializationContext(self._task, self._of, restored, self.operator_state, self.keyed_state)
            self._function.initialize_state(context)
        elif isinstance(self._function, Checkpointed):
            state = self.operator_state.state(self._function.descriptor)
            if state.is_set:
                self._function.restore_state(state.value())
        elif self._function is not None:
            raise InvalidUse("the function of a task is a CheckpointedFunction or Checkpointed")


class _Readers:
    """Opens the commits of the state stores of other tasks, to read ranges of keys without loading the whole stores and
    without maintaining them.
    """

    def __init__(self, files: StateFiles, settings: ProviderSettings) -> None:
        self._files = files
        self._settings = replace(settings, maintenance_interval=None)

    def __call__(self, snapshot: TaskSnapshot) -> RangeReader:
        provider = FileStateStoreProvider(self._files, self._settings)
        provider.init(snapshot.store)
        return provider.get_range_reader(snapshot.version, snapshot.id)

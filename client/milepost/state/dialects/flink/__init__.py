"""Operator state, and keyed state by key groups, with Flink's interface.

An `OperatorTask` is one of the parallel tasks of an operator, with all its state in one state store. The function of a
task registers states by descriptors, and writes its data into them before each snapshot. A `Checkpoint` has the
snapshots of all tasks, and any number of tasks can continue from it.
"""

from milepost.state.dialects.flink.checkpoints import Checkpoint, TaskSnapshot, discard
from milepost.state.dialects.flink.descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    UpdateType,
    ValueStateDescriptor,
    Visibility,
)
from milepost.state.dialects.flink.keyed_store import (
    AggregatingState,
    BroadcastState,
    KeyedStateStore,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from milepost.state.dialects.flink.operator_store import OperatorListState, OperatorState, OperatorStateStore
from milepost.state.dialects.flink.task import (
    Checkpointed,
    CheckpointedFunction,
    CheckpointListener,
    InitializationContext,
    OperatorTask,
    SnapshotContext,
)

__all__ = [
    "OperatorTask",
    "TaskSnapshot",
    "Checkpoint",
    "discard",
    "CheckpointedFunction",
    "Checkpointed",
    "CheckpointListener",
    "InitializationContext",
    "SnapshotContext",
    "OperatorStateStore",
    "OperatorState",
    "OperatorListState",
    "BroadcastState",
    "OperatorStateDescriptor",
    "KeyedStateStore",
    "State",
    "ValueState",
    "ListState",
    "MapState",
    "ReducingState",
    "AggregatingState",
    "ValueStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "AggregatingStateDescriptor",
    "AggregateFunction",
    "StateTtlConfig",
    "UpdateType",
    "Visibility",
]

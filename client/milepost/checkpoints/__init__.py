"""Keeps the last few checkpoints of a job in a state handle store, as Flink's DefaultCompletedCheckpointStore does.

::

    registry = milepost.checkpoints.CheckpointRegistry(session.store("flights"), retain=3)
    recovery = registry.recover()
    registry.add(8, b"the state")
    registry.shutdown(job_ended=False)
"""

from milepost.checkpoints.records import Checkpoint, Recovery, Skipped
from milepost.checkpoints.registry import CheckpointRegistry
from milepost.errors import CleanUpLags, NoIntactCheckpoint

__all__ = ["CheckpointRegistry", "Checkpoint", "Recovery", "Skipped", "CleanUpLags", "NoIntactCheckpoint"]

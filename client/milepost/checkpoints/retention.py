"""Which checkpoints a newer one makes superfluous."""

from __future__ import annotations

from collections.abc import Sequence

from milepost.checkpoints.records import Checkpoint


def superfluous(checkpoints: Sequence[Checkpoint], retain: int) -> list[Checkpoint]:
    """The oldest beyond ``retain``, of ``checkpoints`` in numeric order; as Flink's CheckpointSubsumeHelper has it.

    The latest stays, and so does the latest that is no savepoint: a savepoint belongs to the user, who may move or
    delete it, so that it never stands in for the job's own last checkpoint. More than ``retain`` may therefore stay.
    """
    own = [checkpoint for checkpoint in checkpoints if not checkpoint.savepoint]
    kept = {checkpoint.number for checkpoint in (*own[-1:], *checkpoints[-1:])}
    removable = [checkpoint for checkpoint in checkpoints if checkpoint.number not in kept]
    return removable[: max(0, len(checkpoints) - retain)]

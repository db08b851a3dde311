"""The retention rule: which checkpoints may be removed once a newer one was added."""

from __future__ import annotations

from collections.abc import Sequence

from milepost.checkpoints.records import Checkpoint


def superfluous(checkpoints: Sequence[Checkpoint], retain: int) -> list[Checkpoint]:
    """Return the oldest of ``checkpoints`` (in numeric order) beyond ``retain``, as Flink's CheckpointSubsumeHelper
    does.

    The latest stays, and so does the latest that is not a savepoint. A savepoint belongs to the user, who may move or
    delete it, so it never replaces the job's own last checkpoint. Therefore more than ``retain`` may stay.
    """
    own = [checkpoint for checkpoint in checkpoints if not checkpoint.savepoint]
    kept = {checkpoint.number for checkpoint in (*own[-1:], *checkpoints[-1:])}
    removable = [checkpoint for checkpoint in checkpoints if checkpoint.number not in kept]
    return removable[: max(0, len(checkpoints) - retain)]

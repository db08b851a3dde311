"""Rolls a job's files back to an older snapshot if newer files are damaged, without losing or doubling a row.

Let L be the last batch whose offsets Spark logged, and B the batch of the snapshot. After B, Spark must run again every
batch that a sink may have seen, with the same input. So the rollback keeps what Spark logged about that input: the logs
of the sources, and the offsets of B + 1. Spark itself runs no more than one logged batch again. If there are two,
because B + 1 was published and a driver had begun L = B + 2, the offsets of L are set aside. Once B + 1 is committed,
the next driver puts them back: the query of this driver ends when Spark plans L anew (`RestartNeeded`).

Managed state in the job's tree stays as it is. The job record names the commits of the last published batch, which the
snapshot of an older batch does not have; and its files never change, so no snapshot has better ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from milepost.errors import WrongCheckpoint
from milepost.files import JobFiles
from milepost.integrity import IfDamaged, described, newest_whole, refusal
from milepost.spark.inputs import Checkpoint
from milepost.spark.recovery import SET_ASIDE, newest, set_aside
from milepost.types import Snapshot, Verification

_log = logging.getLogger(__name__)
_ROOT = "checkpoint"
"""The directory of the checkpoint among the files of a job."""
_STATES = "_milepost"
"""The directory of a job's managed states (`milepost.state.store.TreeFiles`)."""


class Writable(Checkpoint, Protocol):
    """The write operations on a checkpoint, as `CheckpointTree` has them."""

    def write(self, path: str, content: bytes) -> None: ...
    def delete(self, path: str) -> None: ...


def fall_back(
    found: Verification | None,
    checkpoint: Writable,
    files: JobFiles,
    published: int,
    if_damaged: IfDamaged,
) -> Snapshot | None:
    """If files of the job are damaged, roll back to the newest whole snapshot that is safe, and return it.

    ``published`` is the last published batch. Raises `CheckpointDamaged`, `Fenced`, and the errors of reading the
    checkpoint.
    """
    if found is None or found.intact:
        return None
    if if_damaged is IfDamaged.GO_ON:
        _log.error("%s; going on all the same, a query that needs them fails", described(found))
        return None
    logged = max(newest(checkpoint, "offsets"), set_aside(checkpoint))
    snapshot = newest_whole(safe(found.kept.snapshots, logged, published))
    if snapshot is None:
        raise refusal(found, f"no whole snapshot is safe to go back to: {_wanted(logged, published)}")
    if if_damaged is IfDamaged.REFUSE:
        raise refusal(
            found,
            f'it is set that the job does not go on then; with if_damaged="fall-back" it would go back to batch '
            f"{snapshot.batch}",
        )
    keep = _to_keep(checkpoint, snapshot.batch, logged, found)
    _log.error(
        "%s; going back to batch %d of the job, at revision %d: what came after it is evaluated again with the same "
        "input, and published no second time",
        described(found),
        snapshot.batch,
        snapshot.revision,
    )
    states = [file.path for file in files.list("") if file.path == _STATES]
    files.roll_back(snapshot.revision, keep=[*(f"{_ROOT}/{path}" for path in keep), *states])
    return snapshot


def safe(snapshots: Iterable[Snapshot], logged: int, published: int) -> list[Snapshot]:
    """Return the snapshots after which Spark runs again, with the same input, every batch that a sink may have seen."""
    least = _least(logged, published)
    return [snapshot for snapshot in snapshots if snapshot.directory == _ROOT and least <= snapshot.batch <= logged]


def bring_back(checkpoint: Writable) -> None:
    """Put offsets that were set aside back in place, if all batches before are committed."""
    batch = set_aside(checkpoint)
    if batch < 0 or (committed := newest(checkpoint, "commits")) < batch - 1:
        return
    if committed == batch - 1 and (content := checkpoint.read(f"{SET_ASIDE}/{batch}")) is not None:
        checkpoint.write(f"offsets/{batch}", content)
        _log.info("batch %d is run again with the offsets that were logged before the job went back", batch)
    checkpoint.delete(f"{SET_ASIDE}/{batch}")


def _least(logged: int, published: int) -> int:
    """Return the oldest batch to roll back to. Two batches run again only if the first of them is published:
    `ExactlyOnce` does not publish that one again, and handles the second.
    """
    return logged - 2 if published == logged - 1 else logged - 1


def _wanted(logged: int, published: int) -> str:
    return (
        f"batch {published} was published last, batch {logged} begun, so that only a snapshot of batch "
        f"{max(0, _least(logged, published))} or later would do; from an earlier one on, input would be divided anew"
    )


def _to_keep(checkpoint: Writable, batch: int, logged: int, found: Verification) -> list[str]:
    """Return the paths that a rollback to ``batch`` leaves unchanged, after reading all of these files."""
    keep = []
    try:
        sources = checkpoint.names("sources")
        for source in sources:
            for name in checkpoint.names(f"sources/{source}"):
                checkpoint.read(f"sources/{source}/{name}")
        if sources:
            keep.append("sources")
        if logged > batch and checkpoint.read(f"offsets/{batch + 1}") is not None:
            keep.append(f"offsets/{batch + 1}")
        if logged > batch + 1:
            if set_aside(checkpoint) != logged:
                checkpoint.write(f"{SET_ASIDE}/{logged}", checkpoint.read(f"offsets/{logged}") or b"")
            checkpoint.delete(f"offsets/{logged}")
        if set_aside(checkpoint) > batch:
            keep.append(SET_ASIDE)
    except WrongCheckpoint as error:
        raise refusal(
            found, f"what Spark logged about the input after batch {batch} cannot be read either: {error}"
        ) from error
    return keep

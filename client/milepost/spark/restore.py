"""Building an epoch's private checkpoint directory from the newest stored checkpoint that is intact and safe.

**Which checkpoints are safe.** With P the last published batch, a query may go on at P + 1, or at P: it runs P again
with the offsets that were logged for it, and the batch is not published twice. It may not go on earlier. The offsets
of the batches in between are not in such a checkpoint, so Spark would divide the input into batches anew, while P and
what came before have been published by the old division: rows would be lost or doubled. So an intact but older
checkpoint is refused.

The same holds for a batch that was entered after P: its publishing function may have written to a sink that counts by
batch (Delta's ``txnVersion``), which would take the batch's new rows for the old ones. Only `Job.files`, whose output
nobody sees before it is published, may divide the input of such a batch anew.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from milepost.core.outages import hindrance
from milepost.errors import Damaged, NoSafeCheckpoint, NotExist, StateTruncated, VersionMismatch, WrongCheckpoint
from milepost.spark.layer_index import LayerIndex
from milepost.spark.layers import unpack
from milepost.spark.manifest import published_by_files
from milepost.spark.portable import fitted, is_data
from milepost.spark.record import JobCheckpoint, JobRecord, Layer
from milepost.spark.snapshot import Stat, scan
from milepost.spark.store import HandleStore

_log = logging.getLogger(__name__)
_READS = 3


@dataclass(frozen=True)
class SkippedCheckpoint:
    """A checkpoint that was passed over, and why."""

    checkpoint: JobCheckpoint
    reason: str


@dataclass(frozen=True)
class Restored:
    """The epoch's directory, the checkpoint in it (None for a job that never had one) and what was passed over."""

    directory: Path
    layer_index: LayerIndex
    checkpoint: JobCheckpoint | None
    skipped: tuple[SkippedCheckpoint, ...] = ()


def restore(store: HandleStore, record: JobRecord, workdir: Path, epoch: int) -> Restored:
    """Build ``<workdir>/e<epoch>``: first beside it, then renamed, so that it is whole or absent.

    Raises `NoSafeCheckpoint` when the record names checkpoints but none can be used, `WrongCheckpoint` when the
    directory is there already or the checkpoint is bound to another one, and what keeps the service from being read (an
    outage is no damage) or the directory from being written. Nothing of it is left then.
    """
    directory, building = workdir / f"e{epoch}", workdir / f"e{epoch}.tmp"
    if directory.exists():
        raise WrongCheckpoint(f"{directory} is there already, and no epoch is used twice: is {workdir} another job's?")
    try:
        return _built(store, record, directory, building)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _built(store: HandleStore, record: JobRecord, directory: Path, building: Path) -> Restored:
    skipped: list[SkippedCheckpoint] = []
    for checkpoint in record.checkpoints:
        reason = _unsafe(checkpoint, record)
        if reason:
            skipped.append(SkippedCheckpoint(checkpoint, reason))
            continue
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        try:
            layer_index = materialise(store, checkpoint, building)
        except (Damaged, StateTruncated, NotExist, VersionMismatch) as damage:
            _log.error("%s is damaged: %s", checkpoint, damage)
            skipped.append(SkippedCheckpoint(checkpoint, f"damaged: {damage}"))
            continue
        fit(building, directory, layer_index)
        building.rename(directory)
        return Restored(directory, layer_index, checkpoint, tuple(skipped))
    if skipped or record.published >= 0:
        reasons = "; ".join(f"{skip.checkpoint}: {skip.reason}" for skip in skipped) or "the record names none"
        raise NoSafeCheckpoint(
            f"batch {record.published} was published last, and no checkpoint can be gone on from without losing or "
            f"repeating rows ({reasons}); nothing was removed: put the damaged bytes back into the service's blob "
            "store and start again, or start over under another name, with another output"
        )
    directory.mkdir(parents=True)
    return Restored(directory, LayerIndex(), None)


def _unsafe(checkpoint: JobCheckpoint, record: JobRecord) -> str:
    """Why a query must not go on from ``checkpoint``, however intact it is; empty if it may."""
    if checkpoint.resumes_at < record.published:
        return f"older than the published batch {record.published}, which would be cut differently"
    if checkpoint.resumes_at < record.entered and not published_by_files(record.manifest):
        return (
            f"older than batch {record.entered}, which was entered: its publishing function may have written already, "
            "and the batch would be cut differently"
        )
    return ""


def materialise(store: HandleStore, checkpoint: JobCheckpoint, directory: Path) -> LayerIndex:
    """Write the files of ``checkpoint`` into the empty ``directory``; which of them came from where."""
    layer_index = LayerIndex()
    for layer in checkpoint.layers:
        layer_index.restored(layer, _stats(directory, _unpacked(store, layer, directory)))
    for path, content in checkpoint.inline.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        layer_index.placed.pop(path, None)
    return layer_index


def fit(building: Path, directory: Path, layer_index: LayerIndex) -> None:
    """Let the files in ``building`` name ``directory``, where they are needed to. Raises as `fitted` does."""
    for path in scan(building):
        if is_data(path):
            continue
        stored = (building / path).read_bytes()
        content = fitted(path, stored, directory)
        if content == stored:
            continue
        (building / path).write_bytes(content)
        if path in layer_index.placed:
            _, layer = layer_index.placed[path]
            layer_index.placed.update({at: (stat, layer) for at, stat in _stats(building, [path]).items()})


def _unpacked(store: HandleStore, layer: Layer, directory: Path) -> list[str]:
    """Raises what stands in the way of reading as itself, and `StateTruncated` only for bytes that are wrong."""
    for attempt in range(_READS):
        try:
            with store.open(layer.name, layer.version) as chunks:
                return unpack(chunks, directory)
        except StateTruncated as cut:
            obstacle = hindrance(cut)
            if attempt < _READS - 1:
                _log.warning("reading %s again: %s", layer.name, cut)
            elif obstacle is None:
                raise
            else:
                raise obstacle from obstacle.__cause__
    raise AssertionError("the last read returns or raises")


def _stats(directory: Path, paths: Iterable[str]) -> dict[str, Stat]:
    stats = ((path, (directory / path).stat()) for path in paths)
    return {path: Stat(stat.st_size, stat.st_mtime_ns) for path, stat in stats}

"""Restoring: builds the private checkpoint directory of an epoch from the newest stored checkpoint that is intact and
safe.

**Which checkpoints are safe.** Let P be the batch published last. A query may continue at P + 1; or at P, for then it
runs P again with the offsets that were logged for it, and P is not published twice. It must not continue earlier. Such
a checkpoint does not hold the offsets of the batches in between, so Spark would divide the input into batches anew,
while P and the batches before it were published with the old division: rows would be lost or doubled. So an intact but
older checkpoint is refused.

The same is true for a batch that was entered after P. Its publishing function may have written to a sink that counts by
batch (Delta's ``txnVersion``), which would take the batch's new rows for the old ones. Only with `Job.files`, whose
output nobody sees before it is published, may the input of such a batch be divided anew.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from milepost.core.calls.outages import hindrance
from milepost.errors import Damaged, NoSafeCheckpoint, NotExist, StateTruncated, VersionMismatch, WrongCheckpoint
from milepost.spark.checkpoints.layer_index import LayerIndex
from milepost.spark.checkpoints.layers import unpack
from milepost.spark.checkpoints.portable import fitted, is_data
from milepost.spark.checkpoints.snapshot import Stat, scan
from milepost.spark.output.manifest import published_by_files
from milepost.spark.record import JobCheckpoint, JobRecord, Layer
from milepost.spark.store import HandleStore

_log = logging.getLogger(__name__)
_READS = 3


@dataclass(frozen=True)
class SkippedCheckpoint:
    """A checkpoint that was skipped, and the reason."""

    checkpoint: JobCheckpoint
    reason: str


@dataclass(frozen=True)
class Restored:
    """The epoch's directory, the checkpoint in it (None for a job that never had one), and the checkpoints that were
    skipped.
    """

    directory: Path
    layer_index: LayerIndex
    checkpoint: JobCheckpoint | None
    skipped: tuple[SkippedCheckpoint, ...] = ()


def restore(store: HandleStore, record: JobRecord, workdir: Path, epoch: int) -> Restored:
    """Build ``<workdir>/e<epoch>``. It is built beside that path and then renamed, so that it is complete or absent.

    Raises `NoSafeCheckpoint` if the record names checkpoints but none can be used, `WrongCheckpoint` if the directory
    exists already or the checkpoint is bound to another one. Also raises whatever prevents reading from the service (an
    outage is not damage) or writing the directory. Nothing of the directory is left then.
    """
    directory, building = workdir / f"e{epoch}", workdir / f"e{epoch}.tmp"
    if directory.exists():
        raise WrongCheckpoint(
            f"{directory} exists already, but no epoch is used twice: does {workdir} belong to another job?"
        )
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
            _log.error("the %s is damaged, trying an older one: %s", checkpoint, damage)
            skipped.append(SkippedCheckpoint(checkpoint, f"damaged: {damage}"))
            continue
        fit(building, directory, layer_index)
        building.rename(directory)
        return Restored(directory, layer_index, checkpoint, tuple(skipped))
    if skipped or record.published >= 0:
        reasons = "; ".join(f"{skip.checkpoint}: {skip.reason}" for skip in skipped) or "the record names none"
        raise NoSafeCheckpoint(
            f"batch {record.published} was published last, and there is no checkpoint to continue from without losing "
            f"or repeating rows ({reasons}); nothing was removed: put the damaged bytes back into the service's blob "
            "store and start again, or start over under another name, with another output"
        )
    directory.mkdir(parents=True)
    return Restored(directory, LayerIndex(), None)


def _unsafe(checkpoint: JobCheckpoint, record: JobRecord) -> str:
    """Return why a query must not continue from ``checkpoint``, even if it is intact; empty if it may."""
    if checkpoint.resumes_at < record.published:
        return f"older than the published batch {record.published}, whose input would be divided differently"
    if checkpoint.resumes_at < record.entered and not published_by_files(record.manifest):
        return (
            f"older than batch {record.entered}, which was entered: its publishing function may have written already, "
            "and its input would be divided differently"
        )
    return ""


def materialise(store: HandleStore, checkpoint: JobCheckpoint, directory: Path) -> LayerIndex:
    """Write the files of ``checkpoint`` into the empty ``directory``; return which layer each of them came from."""
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
    """Write the path ``directory`` into those files in ``building`` that hold the path of their own directory.

    Raises the errors of `fitted`.
    """
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
    """Unpack a layer, and return the paths that were written.

    Whatever prevents the reading is raised as itself; `StateTruncated` is raised only for bytes that are wrong.
    """
    for attempt in range(_READS):
        try:
            with store.open(layer.name, layer.version) as chunks:
                return unpack(chunks, directory)
        except StateTruncated as cut:
            obstacle = hindrance(cut)
            if attempt < _READS - 1:
                _log.warning("reading checkpoint layer %s failed, reading it again: %s", layer.name, cut)
            elif obstacle is None:
                raise
            else:
                raise obstacle from obstacle.__cause__
    raise AssertionError("the last read returns or raises")


def _stats(directory: Path, paths: Iterable[str]) -> dict[str, Stat]:
    stats = ((path, (directory / path).stat()) for path in paths)
    return {path: Stat(stat.st_size, stat.st_mtime_ns) for path, stat in stats}

"""Recovery of a job by a new driver: restore the newest safe checkpoint that the job record names, check it before a
query uses it, and log what a person should know.

A checkpoint is *safe* if a query that continues from it neither loses nor doubles rows (`restore` says when). A batch
is *entered* when its checkpoint is named in the job record; before that, no function of the user is called with it.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from milepost.spark.checkpoints.restore import Restored, SkippedCheckpoint, restore
from milepost.spark.checkpoints.workdir import remove_older, remove_unfinished
from milepost.spark.inputs import check_inputs, inputs_of
from milepost.spark.preflight import ConfDifference, conf_differences
from milepost.spark.record import JobCheckpoint, JobRecord
from milepost.spark.store import HandleStore

_log = logging.getLogger(__name__)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class JobRecovery:
    """What a driver found when it took the job over, under ``epoch``.

    ``checkpoint`` is the one that was restored; None for a job that begins. ``skipped`` are newer ones that are
    damaged. ``entries`` counts how often earlier drivers entered the batch that runs next, and did not finish it.
    ``conf`` are settings for which Spark will use the value in the query's offset log, since that differs from the one
    in the Spark session. ``rewritten`` are input files of the batch that runs next which were changed since it first
    ran, so that its replay may differ.
    """

    epoch: int
    checkpoint: JobCheckpoint | None
    entries: int = 0
    skipped: tuple[SkippedCheckpoint, ...] = ()
    conf: tuple[ConfDifference, ...] = ()
    rewritten: tuple[str, ...] = ()


def recover(
    store: HandleStore,
    record: JobRecord,
    workdir: Path,
    epoch: int,
    *,
    setting: Callable[[str], str | None],
    modified_ms: Callable[[str], int | None],
) -> tuple[Restored, JobRecovery]:
    """Restore the newest safe checkpoint into a new directory below ``workdir``, and check it.

    ``setting`` returns the value of a key in the Spark session, ``modified_ms`` when a file was last modified (None: it
    is gone). Raises `InputMissing` if input files of a batch that must run again were deleted, and what `restore`
    raises.
    """
    restored = _restored(store, record, workdir, epoch)
    checkpoint = restored.checkpoint
    if checkpoint is None:
        return restored, JobRecovery(epoch, None)
    offsets = checkpoint.inline.get(f"offsets/{checkpoint.batch}", b"")
    rewritten: list[str] = []
    if not checkpoint.committed:
        rewritten = check_inputs(inputs_of(restored.directory, checkpoint.batch), modified_ms, checkpoint.batch)
    recovery = JobRecovery(
        epoch=epoch,
        checkpoint=checkpoint,
        entries=record.entries if record.entered == checkpoint.resumes_at else 0,
        skipped=restored.skipped,
        conf=tuple(conf_differences(offsets, setting)),
        rewritten=tuple(rewritten),
    )
    _report(recovery)
    return restored, recovery


def _restored(store: HandleStore, record: JobRecord, workdir: Path, epoch: int) -> Restored:
    """Restore as `restore` does. If the disk is full, delete the directories of older epochs, and try once more.

    As a rule these directories are deleted only after a checkpoint was restored. So they would keep the disk full for
    every later driver too.
    """
    remove_unfinished(workdir, epoch)
    try:
        return restore(store, record, workdir, epoch)
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        _log.warning(
            "no room to restore a checkpoint in %s, deleting what older drivers left there and trying once more: %s",
            workdir,
            error,
        )
    remove_older(workdir, epoch)
    return restore(store, record, workdir, epoch)


def _report(recovery: JobRecovery) -> None:
    _log.info("epoch %d continues from the %s", recovery.epoch, recovery.checkpoint)
    for skipped in recovery.skipped:
        _log.error("the %s was skipped: %s", skipped.checkpoint, skipped.reason)
    for difference in recovery.conf:
        _log.warning(
            "setting %s is %s in the query's log, which wins over the session's %s",
            difference.key,
            difference.logged,
            difference.session,
        )
    for uri in recovery.rewritten:
        _log.warning("input file %s was changed since its batch first ran, so the replay of the batch may differ", uri)
    if recovery.entries > 1:
        _log.warning("earlier drivers entered the batch that runs next %d times without finishing it", recovery.entries)

"""Recovery: makes a directory that a query can start in from the job record, and logs what a person should know."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from milepost.spark.checkpoints.restore import Restored, SkippedCheckpoint, restore
from milepost.spark.checkpoints.workdir import remove_older, remove_unfinished
from milepost.spark.inputs import check_inputs, inputs_of
from milepost.spark.preflight import ConfDifference, conf_differences
from milepost.spark.record import JobCheckpoint, JobRecord
from milepost.spark.store import HandleStore

_log = logging.getLogger(__name__)
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class JobRecovery:
    """The findings of a driver that took over.

    ``checkpoint`` is the restored one (None: the job begins), ``skipped`` are newer ones that were damaged or too old.
    ``entries`` counts how often earlier drivers entered the batch that runs next. ``conf`` are settings in the query's
    log that override the session's. ``rewritten`` are input files of that batch that changed since it first ran, so
    that its replay may differ.
    """

    epoch: int
    checkpoint: JobCheckpoint | None
    entries: int = 0
    skipped: tuple[SkippedCheckpoint, ...] = ()
    conf: tuple[ConfDifference, ...] = field(default=())
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
    """Restore the newest safe checkpoint into ``workdir``, and check it before a query uses it.

    ``setting`` returns the session's value of a key, ``modified_ms`` a file's modification time (None: it is gone).
    Raises `NoSafeCheckpoint`, `WrongCheckpoint`, `InputMissing`.
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
    """Restore as `restore` does; on a full disk, delete the directories of dead drivers and try once more.

    Otherwise these directories would stop each later driver, and each of those would leave more behind.
    """
    remove_unfinished(workdir, epoch)
    try:
        return restore(store, record, workdir, epoch)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _log.warning(
            "no room to restore a checkpoint in %s, deleting what older drivers left there: %s", workdir, error
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

"""From the job record to a directory that a query can start in, with everything a person should know about it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from milepost.spark.inputs import check_inputs, inputs_of
from milepost.spark.preflight import ConfDifference, conf_differences
from milepost.spark.record import JobCheckpoint, JobRecord
from milepost.spark.restore import Restored, SkippedCheckpoint, restore
from milepost.spark.store import HandleStore
from milepost.spark.workdir import remove_older, remove_unfinished

_log = logging.getLogger(__name__)
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class JobRecovery:
    """What a driver found when it took over.

    ``checkpoint`` is the one restored (None: the job begins), ``skipped`` what was damaged or too old before it.
    ``entries`` counts how often earlier drivers entered the batch that runs next. ``conf`` are settings of the
    query's log that win over the session's; ``rewritten`` are input files of that batch that changed since it first
    ran, so that its replay may differ.
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
    """Restore the newest safe checkpoint into ``workdir`` and look at it before a query does.

    ``setting`` gives the session's value of a key, ``modified_ms`` a file's modification time (None: it is gone).
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
    """What `restore` returns. On a full disk the directories of dead drivers make room: else they would keep each of
    their successors out, and every one of those would leave more behind."""
    remove_unfinished(workdir, epoch)
    try:
        return restore(store, record, workdir, epoch)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _log.warning("no room to restore in %s, clearing away what older drivers left there: %s", workdir, error)
    remove_older(workdir, epoch)
    return restore(store, record, workdir, epoch)


def _report(recovery: JobRecovery) -> None:
    _log.info("epoch %d goes on from the %s", recovery.epoch, recovery.checkpoint)
    for skipped in recovery.skipped:
        _log.error("the %s was passed over: %s", skipped.checkpoint, skipped.reason)
    for difference in recovery.conf:
        _log.warning(
            "%s is %s in the query's log and wins over the session's %s",
            difference.key,
            difference.logged,
            difference.session,
        )
    for uri in recovery.rewritten:
        _log.warning("input %s was changed since its batch first ran: the replay may differ", uri)
    if recovery.entries > 1:
        _log.warning("earlier drivers entered the batch that runs next %d times without finishing it", recovery.entries)

"""Takes a job over under the granted epoch: from reading its record to knowing the batch at which it continues.

This module starts no query. If another driver or an outage prevents a step, the driver stands by again and repeats the
take-over under another epoch (`milepost.standby.Standby.take_over`).

If files of the job are damaged, the driver rolls them back to an older snapshot, without losing or doubling a row. Let
L be the last batch whose offsets Spark logged, and B the batch of the snapshot. After B, Spark must run again every
batch that a sink may have seen, with the same input. So the rollback keeps what Spark logged about that input: the logs
of the sources, and the offsets of B + 1. Spark itself runs no more than one logged batch again. If there are two,
because B + 1 was published and a driver had begun L = B + 2, the offsets of L are set aside. Once B + 1 is committed,
the next driver puts them back: the query of this driver ends when Spark plans L anew (`RestartNeeded`).

The rollback leaves managed state in the job's tree unchanged. The job record names the state's commits of the last
published batch, which a snapshot of an older batch does not contain; and the files of a commit never change, so a
snapshot has no intact copy of a damaged one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.errors import SparkNoSuchElementException

from milepost.client import authority_of_new_jobs
from milepost.core.checkpoint_location import CheckpointLocation
from milepost.errors import NoProgress, UnsafeQuery, WrongCheckpoint
from milepost.files import JobFiles
from milepost.integrity import IfDamaged, described, look, newest_whole, refusal
from milepost.session import Session
from milepost.spark.file_manager import file_manager
from milepost.spark.guard import warn_of_strangers
from milepost.spark.inputs import Checkpoint
from milepost.spark.output.file_systems import HadoopFiles
from milepost.spark.pointer import JobPointer, ResolvingStore
from milepost.spark.recovery import SET_ASIDE, JobRecovery, newest, recover, set_aside
from milepost.spark.rescale import end_rescale
from milepost.spark.session_settings import SessionSettings, default_file_system
from milepost.spark.tree import CheckpointTree
from milepost.standby import Leadership
from milepost.types import Snapshot, Verification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_ROOT = "checkpoint"
"""The directory of the checkpoint among the files of a job."""
_STATES = "_milepost"
"""The directory of a job's managed states (`milepost.state.store.TreeFiles`)."""
_ENTRIES_TO_READ_ALL = 2
"""If drivers began a batch this often without finishing it, the next driver checks each byte of the job's files."""


@dataclass(frozen=True)
class TakenOver:
    """A job that its driver has taken over: the parts of a `Job`.

    ``session`` has the driver's epoch, under which ``pointer`` moves the job record. ``tree`` has the files of the
    checkpoint at ``location``, and ``recovery`` says how far they have come.
    """

    session: Session
    pointer: JobPointer
    location: CheckpointLocation
    tree: CheckpointTree
    recovery: JobRecovery


def take_over(
    leadership: Leadership,
    spark: SparkSession,
    name: str,
    settings: SessionSettings,
    *,
    authority: str | None,
    token_url: str | None,
    must_exist: bool,
    outage_timeout: float,
    if_damaged: IfDamaged,
    digests: bool,
    max_entries: int | None,
) -> TakenOver:
    """Read the record of the job ``name``, put the ``settings`` of this epoch in place, fall back if files are damaged,
    and read how far the job has come. The arguments are those of `milepost.spark.lead`.

    Raises the errors of `milepost.spark.lead`; among them `Fenced`, `SessionLost` and the errors of an outage, after
    which this driver may try again later.
    """
    store, client = leadership.store, leadership.client
    certain = ResolvingStore(store, outage_timeout=outage_timeout)
    pointer = JobPointer.take(certain, authority or authority_of_new_jobs(client), must_exist=must_exist)
    location = leadership.location(_authority(name, pointer, authority), token_url)
    settings.put({**location.settings, **file_manager(spark)}, location.fence)
    warn_of_strangers(location, default_file_system(spark), "fs.defaultFS")
    # The tree waits out an outage for `client.timeout` at most; then the take-over fails, and the driver stands by.
    tree = CheckpointTree(spark, location, client.timeout)
    with certain.or_fenced():
        end_rescale(pointer, tree)
        found = look(store, digests=digests or pointer.record.entries >= _ENTRIES_TO_READ_ALL)
        snapshot = fall_back(found, tree, store.files, pointer.record.published, if_damaged, name)
        bring_back(tree)
        recovery = recover(
            tree,
            pointer.record,
            certain.epoch,
            job=name,
            setting=lambda key: _setting(spark, key),
            modified_ms=HadoopFiles(spark).modified_ms,
            damaged=() if found is None else tuple(found.damaged),
            went_back_to=None if snapshot is None else snapshot.batch,
        )
        _check_progress(recovery, max_entries)
    tree = CheckpointTree(spark, location, outage_timeout)
    leadership.session.raise_if_lost()
    return TakenOver(leadership.session, pointer, location, tree, recovery)


def _authority(name: str, pointer: JobPointer, authority: str | None) -> str:
    """Return the authority of the job's checkpoint location. Raises `UnsafeQuery` if ``authority``, that of `lead`, is
    given and differs from it.
    """
    known = pointer.record.authority
    if authority is not None and authority != known:
        raise UnsafeQuery(
            f"the checkpoint location of job {name!r} has the authority {known!r}, and Spark has written it into the "
            f"checkpoint: it cannot become {authority!r}; leave out lead's authority"
        )
    return known


def _check_progress(recovery: JobRecovery, most: int | None) -> None:
    """Raise `NoProgress` if drivers have begun the next batch ``most`` times or more and never finished it; None: no
    limit.
    """
    if most is not None and recovery.entries >= most:
        raise NoProgress(
            f"batch {recovery.resumes_at} was entered {recovery.entries} times and never finished, as often as lead's "
            "max_entries allows: find out what ends its drivers, then set it higher, or to None"
        )


def _setting(spark: SparkSession, key: str) -> str | None:
    """Return the value that a query of this session would use: the session's value, else Spark's default, else None."""
    try:
        return spark.conf.get(key)
    except SparkNoSuchElementException:
        return None


class Writable(Checkpoint, Protocol):
    """The read and write operations on a checkpoint, as `CheckpointTree` has them."""

    def write(self, path: str, content: bytes) -> None: ...
    def delete(self, path: str) -> None: ...


def fall_back(
    found: Verification | None,
    checkpoint: Writable,
    files: JobFiles,
    published: int,
    if_damaged: IfDamaged,
    job: str,
) -> Snapshot | None:
    """If files of ``job`` are damaged, roll back to the newest whole snapshot that is safe, and return it.

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
        raise refusal(found, job, f"no whole snapshot is safe to go back to: {_wanted(logged, published)}")
    if if_damaged is IfDamaged.REFUSE:
        raise refusal(
            found,
            job,
            f'it is set that the job does not go on then; with if_damaged="fall-back" it would go back to batch '
            f"{snapshot.batch}",
        )
    keep = _to_keep(checkpoint, snapshot.batch, logged, found, job)
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
    """Return those of ``snapshots`` to which a rollback is safe: afterwards, Spark runs again, with the same input, all
    later batches that a sink may have seen.

    ``logged`` is the last batch whose offsets Spark logged, ``published`` the last published batch.
    """
    least = _least(logged, published)
    return [snapshot for snapshot in snapshots if snapshot.directory == _ROOT and least <= snapshot.batch <= logged]


def bring_back(checkpoint: Writable) -> None:
    """Move offsets that a rollback set aside back to Spark's log ``offsets``, if Spark has committed all batches before
    theirs.
    """
    batch = set_aside(checkpoint)
    if batch < 0 or (committed := newest(checkpoint, "commits")) < batch - 1:
        return
    if committed == batch - 1 and (content := checkpoint.read(f"{SET_ASIDE}/{batch}")) is not None:
        checkpoint.write(f"offsets/{batch}", content)
        _log.info("batch %d is run again with the offsets that were logged before the job went back", batch)
    checkpoint.delete(f"{SET_ASIDE}/{batch}")


def _least(logged: int, published: int) -> int:
    """Return the oldest batch to whose snapshot the job may be rolled back. ``logged`` is the last batch whose offsets
    Spark logged, ``published`` the last published batch.

    The result is ``logged - 1``, after which one batch runs again. It is ``logged - 2`` if the first of the two batches
    that then run again is the last published one: `ExactlyOnce` does not publish that batch a second time.
    """
    return logged - 2 if published == logged - 1 else logged - 1


def _wanted(logged: int, published: int) -> str:
    return (
        f"batch {published} was published last, batch {logged} begun, so that only a snapshot of batch "
        f"{max(0, _least(logged, published))} or later would do; from an earlier one on, input would be divided anew"
    )


def _to_keep(checkpoint: Writable, batch: int, logged: int, found: Verification, job: str) -> list[str]:
    """Return the paths that a rollback to the snapshot of ``batch`` leaves unchanged: what Spark logged about the input
    of later batches. If two logged batches would run again, first set the offsets of the second (``logged``) aside.

    All files to keep are read here. If one cannot be read, the error of `refusal` is raised, before anything is rolled
    back.
    """
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
            found, job, f"what Spark logged about the input after batch {batch} cannot be read either: {error}"
        ) from error
    return keep

"""Takes a job over under the granted epoch: from reading its record to knowing the batch at which it continues.

Nothing here starts a query. A fault of the job itself is raised; a step that another driver or an outage prevents is
tried again under another epoch (`milepost.standby.Standby.take_over`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import SparkNoSuchElementException

from milepost.client import Client
from milepost.core.checkpoint_location import CheckpointLocation, checkpoint_location, default_authority
from milepost.errors import NoProgress, UnsafeQuery
from milepost.integrity import IfDamaged, look
from milepost.session import Session
from milepost.spark.fallback import bring_back, fall_back
from milepost.spark.output.hadoop import HadoopFiles
from milepost.spark.pointer import JobPointer
from milepost.spark.recovery import JobRecovery, recover
from milepost.spark.session_settings import SessionSettings, default_file_system
from milepost.spark.store import ResolvingStore
from milepost.spark.strangers import warn_of_strangers
from milepost.spark.tree import CheckpointTree
from milepost.standby import Leadership

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENTRIES_TO_READ_ALL = 2
"""The number of unfinished beginnings of a batch after which the driver checks each byte of the job's files."""


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
    client: Client,
    name: str,
    settings: SessionSettings,
    *,
    authority: str | None,
    token_url: str,
    must_exist: bool,
    outage_timeout: float,
    if_damaged: IfDamaged,
    digests: bool,
    max_entries: int | None,
) -> TakenOver:
    """Read the record of the job ``name``, put the ``settings`` of this epoch in place, fall back if files are damaged,
    and read how far the job has come. The arguments are those of `milepost.spark.lead`.

    Raises an error for a fault of the job, and `Fenced`, `SessionLost` or the error of an outage if another driver may
    take the job over, or this one later.
    """
    store = leadership.store
    certain = ResolvingStore(store, outage_timeout=outage_timeout)
    pointer = JobPointer.take(certain, authority or default_authority(client.addresses), must_exist=must_exist)
    known = _authority(name, pointer, authority)
    location = checkpoint_location(
        # each of Hadoop's file systems begins with the first address, and a query has many file systems
        client.addresses,
        name,
        certain.epoch,
        authority=known,
        credential=store.file_credential(),
        token_url=token_url,
    )
    settings.put(location.settings, location.fence)
    warn_of_strangers(location, default_file_system(spark), "fs.defaultFS")
    tree = CheckpointTree(spark, location, client.timeout)  # in a longer outage, this driver stands by again
    with certain.or_fenced():
        found = look(store, digests=digests or pointer.record.entries >= _ENTRIES_TO_READ_ALL)
        snapshot = fall_back(found, tree, store.files, pointer.record.published, if_damaged)
        bring_back(tree)
        recovery = recover(
            tree,
            pointer.record,
            certain.epoch,
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
    """Return the authority of the job's checkpoint location. Raises `UnsafeQuery` if ``authority`` is another one."""
    known = pointer.record.authority
    if authority is not None and authority != known:
        raise UnsafeQuery(
            f"the checkpoint location of job {name!r} has the authority {known!r}, and Spark has written it into the "
            f"checkpoint: it cannot become {authority!r}; leave out lead's authority"
        )
    return known


def _check_progress(recovery: JobRecovery, most: int | None) -> None:
    """Raise `NoProgress` if the next batch was begun ``most`` times."""
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

"""Recovery of a job by a new driver: read which batches the checkpoint and the job record contain, and check that the
two fit.

The checkpoint contains all files that Spark wrote under earlier epochs, and no driver can write under those epochs any
more. Let P be the last published batch, and R the batch that Spark runs next, which follows from Spark's own logs
``offsets`` and ``commits``. `ExactlyOnce` publishes a batch after Spark has logged its offsets and before Spark logs
its commit. So R is P + 1; or R is P, if the driver died between these two. In that case Spark runs P again, with the
offsets that were logged for it, and P is not published again.

Any other state of the checkpoint does not come from such a driver. If the offsets of P are not logged, Spark would
divide input that was already published into batches anew (`NoSafeCheckpoint`). If R is greater than P + 1, a query
wrote here whose batches were never published.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

from milepost.errors import NoProgress, NoSafeCheckpoint, SessionLost, WrongCheckpoint
from milepost.job_record import JobRecord
from milepost.session import Session
from milepost.spark.inputs import Checkpoint, check_inputs, inputs_of
from milepost.types import DamagedFile

_log = logging.getLogger(__name__)

WORRYING_ENTRIES = 3
"""From this many beginnings of a batch without its publication on, the driver logs a warning."""
SET_ASIDE = "set-aside"
"""The directory of a checkpoint that stores the offsets of a batch until the batch before it is committed."""


@dataclass(frozen=True)
class ConfDifference:
    """A setting whose value in the query's offset log differs from its value in the Spark session. Spark uses the value
    in the log.
    """

    key: str
    logged: str
    session: str


@dataclass(frozen=True)
class JobRecovery:
    """The state of a job that a driver found when it took the job over, under ``epoch``.

    ``resumes_at`` is the batch that Spark runs first. If ``replays`` is true, an earlier driver began that batch, and
    it runs with the offsets that were logged then. ``entries`` counts how often earlier drivers began it without
    finishing it. ``conf`` lists settings for which Spark will use the value in the query's offset log, since it differs
    from the one in the Spark session. ``rewritten`` lists input files of the next batch that were changed since it
    first ran, so that its replay may differ. ``query`` is the id of the query; None for a new job.
    """

    epoch: int
    resumes_at: int
    replays: bool = False
    entries: int = 0
    conf: tuple[ConfDifference, ...] = ()
    rewritten: tuple[str, ...] = ()
    query: str | None = None
    damaged: tuple[DamagedFile, ...] = ()
    """The damaged files that the check of the job's files found; empty if there are none, or the check took too
    long.
    """
    went_back_to: int | None = None
    """The batch to whose snapshot the job was rolled back because of damaged files; None if it was not."""
    offsets: bytes | None = None
    """The logged offsets of the batch that is replayed."""
    set_aside: int | None = None
    """The batch whose offsets were set aside by a rollback (`milepost.spark.takeover`), and that must not run before a
    later driver has put them back; None if there is none.
    """


def recover(
    checkpoint: Checkpoint,
    record: JobRecord,
    epoch: int,
    *,
    job: str,
    setting: Callable[[str], str | None],
    modified_ms: Callable[[str], int | None],
    damaged: tuple[DamagedFile, ...] = (),
    went_back_to: int | None = None,
) -> JobRecovery:
    """Read which batch the ``job`` continues with, and check that its checkpoint fits the job record. Call this after
    the epoch was granted.

    ``setting`` returns the value of a key in the Spark session, ``modified_ms`` the modification time of a file (None:
    it is gone). The result includes ``damaged``, the damaged files that the driver found, and ``went_back_to``, the
    batch to whose snapshot it rolled back because of them (None: no rollback).

    Raises `NoSafeCheckpoint` if the checkpoint is behind the record, `InputMissing` if input files of a batch that must
    run again were deleted, and the errors of reading the checkpoint.
    """
    logged, committed = newest(checkpoint, "offsets"), newest(checkpoint, "commits")
    aside = set_aside(checkpoint)
    back = _back(job, min(logged, committed), record)
    if committed not in (logged, logged - 1):
        raise NoSafeCheckpoint(
            f"Spark's logs in the checkpoint end with offsets/{logged} and commits/{committed}: no query leaves them "
            f"so, and it is not known which batch comes next; {back}"
        )
    resumes_at, replays = committed + 1, logged > committed
    if max(logged, aside) < record.begun:
        raise NoSafeCheckpoint(
            f"batch {record.published} was published last and batch {record.entered} begun, but the offsets that Spark "
            f"has logged last are those of batch {logged}: the job's checkpoint was emptied, rolled back or changed, "
            f"and input that was published already would be divided into batches anew; {back}"
        )
    offsets = checkpoint.read(f"offsets/{logged}") or b"" if logged >= 0 else b""
    recovery = JobRecovery(
        epoch=epoch,
        resumes_at=resumes_at,
        replays=replays,
        entries=_entries(record, resumes_at) if replays else 0,
        conf=tuple(conf_differences(offsets, setting)),
        rewritten=tuple(check_inputs(inputs_of(checkpoint, logged), modified_ms, logged, job)) if replays else (),
        query=_query(checkpoint),
        damaged=damaged,
        went_back_to=went_back_to,
        offsets=offsets if replays else None,
        set_aside=aside if aside >= 0 else None,
    )
    _report(recovery)
    return recovery


def _back(job: str, batch: int, record: JobRecord) -> str:
    """Return what to do: restore the job to ``batch``, the last one that the checkpoint has whole, or if it has none,
    to the last published one.
    """
    anew = "begin the job under another name, with another output"
    to = batch if batch >= 0 else record.published
    if to < 0:
        return anew
    return (
        f"milepost jobs restore {job} --batch {to} takes files, job record, output and managed state back together, "
        f"and milepost files snapshots {job} lists to which other points; if none is left, {anew}"
    )


def conf_differences(offsets: bytes, session: Callable[[str], str | None]) -> list[ConfDifference]:
    """Return the settings in ``offsets``, a file of Spark's offset log, whose values differ from those in the Spark
    session.

    ``session`` returns the session's value of a setting, or None if the session does not set it. Such a setting does
    not count as different.
    """
    lines = offsets.decode().splitlines()
    if len(lines) < 2:
        return []
    try:
        logged = json.loads(lines[1]).get("conf", {})
    except (ValueError, AttributeError):
        return []
    found = []
    for key, value in sorted(logged.items()):
        now = session(key)
        if now is not None and now != value:
            found.append(ConfDifference(key, str(value), now))
    return found


def check_published(recovery: JobRecovery, published: int) -> None:
    """Raise `WrongCheckpoint` if the checkpoint contains committed batches that were never published through
    Milepost.
    """
    if recovery.resumes_at > published + 1:
        raise WrongCheckpoint(
            f"Spark has committed batch {recovery.resumes_at - 1}, but batch {published} was published last, so what "
            "became of the rows of the batches between is not known. A checkpoint is like this after Spark's offline "
            "repartition, which commits a batch of its own, and may skip one that was not committed; where a query ran "
            "whose foreachBatch was not given job.files(...) or job.exactlyOnce(...); and in a clone of a job's files "
            "alone (milepost files clone), which has neither that job's record of what was published nor its managed "
            "state: milepost jobs clone takes both along. Roll the job's files "
            f"back to a snapshot of batch {published} (milepost files snapshots lists them, milepost files roll-back "
            "goes back), if that is left and what was done since may be undone; else begin the job under another name, "
            "with another output and its input from the beginning"
        )


def check_standstill(record: JobRecord, session: Session, most: int | None, lost: Exception) -> None:
    """Raise `NoProgress`, caused by ``lost``, if the driver lost ``session`` because its process stood still in a batch
    that drivers begin repeatedly: the next driver would lose its session in the same way.

    ``most`` is the limit on how often a batch may be begun; None: no limit.
    """
    if most is None or record.entries < min(most, WORRYING_ENTRIES) or not session.stood_still:
        return
    try:
        session.raise_if_lost()
    except SessionLost as why:
        raise NoProgress(
            f"batch {record.entered} was begun {record.entries} times and never finished, and this driver (ttl "
            f"{session.ttl:g} s) stood still in it: {why}"
        ) from lost


def newest(checkpoint: Checkpoint, log: str) -> int:
    """Return the newest batch in ``log``, one of Spark's logs ``offsets`` and ``commits``; -1 if it is empty."""
    return max((int(name) for name in checkpoint.names(log) if name.isdigit()), default=-1)


def set_aside(checkpoint: Checkpoint) -> int:
    """Return the batch whose offsets a rollback has moved out of Spark's log ``offsets``; -1 if there is none.

    Spark must run the batch before it first. Then the offsets are moved back.
    """
    return newest(checkpoint, SET_ASIDE)


def _entries(record: JobRecord, batch: int) -> int:
    """Return how often drivers began ``batch``. A batch with logged offsets counts as begun once, even if the job
    record does not say so.
    """
    noted = record.entries if record.entered == batch else 0
    return noted if batch == record.published else max(noted, 1)


def _query(checkpoint: Checkpoint) -> str | None:
    metadata = checkpoint.read("metadata")
    if metadata is None:
        return None
    try:
        return str(json.loads(metadata)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise WrongCheckpoint(f"the file metadata in the job's checkpoint is not one of Spark's: {error!r}") from error


def _report(recovery: JobRecovery) -> None:
    again = " again" if recovery.replays else ""
    _log.info("epoch %d goes on at batch %d%s", recovery.epoch, recovery.resumes_at, again)
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
        _log.warning("earlier drivers began the batch that runs next %d times without finishing it", recovery.entries)

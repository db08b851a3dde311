"""The records about jobs that the SDK returns, and those that it takes: frozen dataclasses without behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from milepost.types import Epoch, KeptSnapshots, Process, Snapshot, Wish

__all__ = [
    "JobState",
    "DroppedJob",
    "StandbyInfo",
    "BegunBatch",
    "JobInfo",
    "JobSummary",
    "HistoryEntry",
    "JobAct",
]


@dataclass(frozen=True)
class JobState:
    """The state of a job after a wish about it: ``state`` and ``wish`` are as in `JobInfo`, ``epoch`` is the newest
    epoch with the session that holds it.
    """

    job: str
    state: str
    epoch: Epoch
    wish: Wish | None = None


@dataclass(frozen=True)
class DroppedJob:
    """The result of a drop: the job had ``handles`` handles, and ``snapshots`` snapshots of its files."""

    handles: int
    snapshots: int


@dataclass(frozen=True)
class StandbyInfo:
    """A session that waits for the epoch of a job.

    ``since`` is when the session was opened; None if a release of the service that did not store it opened the session.
    The session ends after ``expires_in`` seconds without a keepalive. ``process`` describes the process that holds the
    session, None if its client did not.
    """

    session: str
    holder: str | None
    since: datetime | None
    expires_in: float
    process: Process | None = None


@dataclass(frozen=True)
class BegunBatch:
    """A batch of the query in ``directory`` that is begun and not committed: a driver stored its offsets at the time
    ``since``, under ``epoch``.
    """

    directory: str
    batch: int
    epoch: int | None
    since: datetime


@dataclass(frozen=True)
class JobInfo:
    """A job as a whole: who leads it, who stands by, and which batches it has committed.

    ``state`` is ``led`` while a driver holds the epoch, ``stopping`` once a person has asked it to stop, and
    ``stopped`` from the end of that epoch until the job is started. Otherwise it is ``lost`` if the driver's session
    ended before the driver resigned, ``resigned`` if it resigned, ``new`` if no driver ever led, and ``dropped`` if the
    job was dropped and did not begin anew. ``wish`` is what a person asks of the driver, None if nothing is asked.
    ``epoch`` describes the epoch and the session that holds it; that session ends after ``expires_in`` seconds without
    a keepalive, None if no session holds the epoch. ``standbys`` names 100 standbys at most, the next leader first;
    ``standby_count`` counts them all. ``kept`` has the snapshots of the job's files. ``handles`` counts the handles of
    the job's store, ``damaged`` the records that cannot be read. ``now`` is the service's time when it answered.
    ``process`` describes the process that holds the epoch, None if none does or its client did not. ``begun`` has of
    each query the batch that was begun and is not committed: its driver is at it, or the next driver runs it again,
    with the same input.
    """

    job: str
    state: str
    epoch: Epoch
    expires_in: float | None
    standbys: Sequence[StandbyInfo]
    standby_count: int
    kept: KeptSnapshots
    handles: int
    damaged: int
    now: datetime
    process: Process | None = None
    wish: Wish | None = None
    begun: Sequence[BegunBatch] = ()

    @property
    def batch(self) -> Snapshot | None:
        """The snapshot of the batch that the job committed last, None if none is kept."""
        return max(self.kept.snapshots, key=_order, default=None)

    @property
    def age(self) -> float | None:
        """The seconds since that batch was committed, by the service's clock; None if that time is unknown."""
        return _age(self.batch, self.now)

    @property
    def batches_an_hour(self) -> float | None:
        """The rate at which the query of the last batch commits batches, over its kept snapshots; None below two."""
        last = self.batch
        of_query = [each for each in self.kept.snapshots if last is not None and each.directory == last.directory]
        return _batches_an_hour(min(of_query, key=_order, default=None), last)


@dataclass(frozen=True)
class JobSummary:
    """One job in the list of jobs: a store with an epoch or a snapshot of its files.

    ``state`` is as in `JobInfo`, or ``damaged`` if the store's own record cannot be read; ``epoch`` is None then.
    ``standby_count`` counts the standbys, ``damaged`` the records that cannot be read. ``batch`` is the snapshot of the
    batch that the job committed last, and ``oldest`` the oldest that is kept of the same query; both are None if none
    is kept. ``now`` is the service's time when it answered.
    """

    job: str
    state: str
    epoch: Epoch | None
    standby_count: int
    batch: Snapshot | None
    oldest: Snapshot | None
    damaged: int
    now: datetime
    wish: Wish | None = None

    @property
    def age(self) -> float | None:
        """The seconds since the last batch was committed, by the service's clock; None if that time is unknown."""
        return _age(self.batch, self.now)

    @property
    def batches_an_hour(self) -> float | None:
        """The rate at which the query of the last batch commits batches, over its kept snapshots; None below two."""
        return _batches_an_hour(self.oldest, self.batch)


def _order(snapshot: Snapshot) -> tuple[int, int]:
    """Return what snapshots are sorted by; those of one revision, as after the rename of a directory, by batch."""
    return snapshot.revision, snapshot.batch


def _age(last: Snapshot | None, now: datetime) -> float | None:
    return None if last is None or last.taken is None else max(0.0, (now - last.taken).total_seconds())


def _batches_an_hour(first: Snapshot | None, last: Snapshot | None) -> float | None:
    if last is None or first is None or last.taken is None or first.taken is None:
        return None
    seconds = (last.taken - first.taken).total_seconds()
    return (last.batch - first.batch) * 3600 / seconds if seconds > 0 else None


@dataclass(frozen=True)
class HistoryEntry:
    """Something that happened to a job, at the time ``at`` and the ``revision`` of the service's journal.

    ``kind`` is one of

    - ``epoch-granted``, ``epoch-ended``: ``session``, ``holder`` and ``process`` held ``epoch``. For an end, ``since``
      is when the epoch was granted, and ``how`` is ``resigned``, ``stopped`` or ``handed-over`` (the driver resigned
      because a person asked for that), ``session-expired``, ``session-ended`` or ``superseded`` (the next epoch was
      granted, and it is not known how this one ended). ``by`` is the name of the client that ended it, if that is not
      the client of the session.
    - ``batch-committed``: ``batch`` of the query in ``directory``, under ``epoch``; ``since`` is when it was begun,
      ``begun_under`` the epoch that began it, if that is an earlier one, which left it uncommitted;
      ``input_rows`` the rows that it read, as the driver said after the commit, None if it did not;
      ``snapshot`` the revision of its snapshot, and ``replay`` says that this batch, or a later one, was committed
      before.
    - ``savepoint-made``, ``savepoint-dropped``: ``savepoint`` of ``snapshot``.
    - ``rolled-back``: to ``snapshot``, that of ``batch``, from the snapshot ``previous``, that of ``previous_batch``.
    - ``cloned``: the files of the job were copied from ``source``, a job and its snapshot: ``files`` files with
      ``bytes`` bytes.
    - ``dropped``: the job was dropped, with its handles, files and snapshots; ``batch`` is that of the newest snapshot.
    - ``stop-requested``, ``hand-over-requested``, ``started``: a person asked that the driver of ``epoch`` stops, or
      hands over, or that the job is started again, for the reason ``reason``. ``holder`` is the person, as far as the
      client said, and ``savepoint`` the savepoint to make.
    - ``expired``: output of the job was expired, up to ``batch``; ``previous_batch`` is the newest batch that was
      expired before.
    - ``rescaled``: the state of the job was divided among ``partitions`` in place of ``previous_partitions``, as
      ``batch``.
    - ``moved``: the job was moved from the cell ``source``, under ``epoch``.
    - ``history-restored``: the ``entries`` entries before this one, which are ``restored``, come from a backup of the
      job ``source`` that was made at the time ``since``. They happened in the service that was saved, at their times
      and under its epochs, and name none of its snapshots. ``entries`` is None if the restore went on after an
      interruption.
    - ``damaged``: the stored page ``page`` of the history cannot be read, for the reason ``reason``, and its entries
      are missing. Such an entry has neither ``at`` nor ``revision``.
    - ``missed``: `Client.job_events` could not tell what happened here, since the service no longer keeps it;
      ``reason`` says after which entry. Only that iteration has such entries, and they have no ``at`` either.

    ``id`` is the place of the entry among the events of the job, from which `Client.job_events` goes on.

    A later release of the service may add kinds. What people did has the ``session`` and the ``holder`` of the request,
    and as ``by`` the name of its token. Members that do not belong to the kind, or that the service does not know, are
    None or False.
    """

    kind: str
    at: datetime | None = None
    revision: int | None = None
    epoch: int | None = None
    session: str | None = None
    holder: str | None = None
    process: Process | None = None
    since: datetime | None = None
    how: str | None = None
    by: str | None = None
    batch: int | None = None
    directory: str | None = None
    replay: bool = False
    snapshot: int | None = None
    previous: int | None = None
    previous_batch: int | None = None
    savepoint: str | None = None
    source: str | None = None
    files: int | None = None
    bytes: int | None = None
    page: str | None = None
    reason: str | None = None
    id: str | None = None
    partitions: int | None = None
    previous_partitions: int | None = None
    begun_under: int | None = None
    input_rows: int | None = None
    restored: bool = False
    entries: int | None = None


@dataclass(frozen=True)
class JobAct:
    """What a change of a job's record does to the job, for its history: ``kind`` is ``expired`` or ``rescaled``, and
    the other members are those of `HistoryEntry`. A service that does not know the kind enters nothing.
    """

    kind: str
    batch: int | None = None
    previous_batch: int | None = None
    partitions: int | None = None
    previous_partitions: int | None = None

"""The records that the SDK returns, and those that it takes: frozen dataclasses without behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = [
    "Handle",
    "Clone",
    "CorruptHandle",
    "LockedHandles",
    "Removal",
    "Epoch",
    "Snapshot",
    "Savepoint",
    "KeptSnapshots",
    "DamagedFile",
    "DroppedJob",
    "Verification",
    "JobFile",
    "WrittenFile",
    "StateAddition",
    "StateReplacement",
    "FileCredential",
    "SessionInfo",
    "SessionSummary",
    "Process",
    "StandbyInfo",
    "BegunBatch",
    "JobAct",
    "JobInfo",
    "JobSummary",
    "HistoryEntry",
    "StoreSummary",
    "StoreEvent",
    "Status",
    "SteppedDown",
]


@dataclass(frozen=True)
class Handle:
    """A named, versioned pointer to one immutable state.

    ``version`` is opaque: it can only be compared. ``size`` is in bytes, ``sha256`` lower-case hex, times are in UTC.
    ``locks`` are the sessions that hold a lock on the handle, and ``epoch`` is the epoch of the driver that wrote it,
    if any. ``removing`` marks a handle whose removal has begun; only listings contain such handles.
    """

    name: str
    version: str
    size: int
    sha256: str
    created: datetime
    updated: datetime
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    locks: tuple[str, ...] = ()
    epoch: int | None = None
    removing: bool = False


@dataclass(frozen=True)
class CorruptHandle:
    """A handle whose record cannot be read, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class LockedHandles:
    """All handles of a store, which the request locked, sorted by name; and the handles whose record is damaged."""

    handles: list[Handle]
    corrupt: list[CorruptHandle]


@dataclass(frozen=True)
class Removal:
    """The result of a removal: ``removed`` says whether the handle was removed; if not, ``locks`` lists the sessions
    that hold a lock on it.
    """

    removed: bool
    locks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wish:
    """What a person asks of the driver of a job: ``kind`` is ``stop`` or ``hand-over``.

    ``epoch`` is the epoch that shall end, 0 if no driver led when the person asked, at the time ``at``. ``by`` is the
    name of the client's token, ``who`` and ``reason`` are what the client said of the person and of the cause, and
    ``savepoint`` is the savepoint that shall be made; each is None if it was not given.
    """

    kind: str
    epoch: int
    at: datetime
    by: str | None = None
    who: str | None = None
    reason: str | None = None
    savepoint: str | None = None

    @property
    def person(self) -> str:
        """Who asks, in words."""
        return " as ".join(filter(None, (self.who, self.by))) or "a client without a name"


@dataclass(frozen=True)
class Epoch:
    """A driver's leadership over one store. If the store never had an epoch, ``epoch`` is 0 and all other fields are
    None. ``wish`` is what a person asks of the driver; only an answer about the current epoch has it.
    """

    epoch: int
    session: str | None = None
    holder: str | None = None
    since: datetime | None = None
    wish: Wish | None = None


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
class Snapshot:
    """The files of a job at ``revision``, right after the query in ``directory`` committed ``batch``.

    ``intact`` says whether the bytes of all its files exist; None if that was not checked. ``taken`` is the time at
    which the batch was committed, and ``epoch`` the epoch that committed it; None if the service does not know.
    """

    directory: str
    batch: int
    revision: int
    intact: bool | None = None
    taken: datetime | None = field(default=None, compare=False)
    epoch: int | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The directory below the job's ``.snapshot`` that shows all files, as long as the snapshot is kept."""
        return f"@{self.revision}"


@dataclass(frozen=True)
class Savepoint:
    """A snapshot that is kept until the savepoint is dropped.

    ``name`` is also the directory below the job's ``.snapshot`` that shows all files.
    """

    name: str
    snapshot: Snapshot


@dataclass(frozen=True)
class KeptSnapshots:
    """The kept snapshots and savepoints of a job's files: the snapshots of the last batches, and the savepoints, oldest
    first.

    ``passed_over`` lists the snapshots that a rollback left behind, and the snapshot that the service made right before
    the rollback. Rolling back to one of them undoes the rollback. They are dropped once the query has made ten new
    snapshots.
    """

    snapshots: list[Snapshot]
    savepoints: list[Savepoint]
    passed_over: list[Snapshot] = field(default_factory=list)


@dataclass(frozen=True)
class DamagedFile:
    """A file whose bytes are not the bytes that were written, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class Verification:
    """The result of checking the files of a job.

    The job now has ``files`` files of ``bytes`` bytes in total; ``intact`` says whether all of them are whole. ``kept``
    lists the snapshots and savepoints, each with its own ``intact``. ``damaged`` lists up to a hundred of the
    ``damaged_count`` damaged files.
    """

    files: int
    bytes: int
    intact: bool
    damaged: list[DamagedFile]
    damaged_count: int
    kept: KeptSnapshots


@dataclass(frozen=True)
class Clone:
    """The result of a clone: it copied ``files`` files of ``bytes`` bytes in total."""

    files: int
    bytes: int


@dataclass(frozen=True)
class DroppedJob:
    """The result of a drop: the job had ``handles`` handles, and ``snapshots`` snapshots of its files."""

    handles: int
    snapshots: int


@dataclass(frozen=True)
class JobFile:
    """A file or a directory in the tree of a job.

    ``size`` is in bytes and ``sha256`` in lower-case hex; neither is meaningful for a directory. ``version`` is opaque,
    and changes whenever the path gets another file. ``modified`` (UTC) is when the file was written, and ``age`` the
    seconds since then, both by the service's clock. ``epoch`` is the epoch of the driver that wrote it, if any. Only a
    listing has ``age`` and ``epoch``.
    """

    path: str
    directory: bool
    size: int
    sha256: str | None
    version: str
    modified: datetime
    age: float | None = None
    epoch: int | None = None


@dataclass(frozen=True)
class WrittenFile:
    """A written file: its size in bytes, its lower-case hex digest, and its version.

    ``created`` is true if the path was free before, false if the file replaced another.
    """

    path: str
    size: int
    sha256: str
    version: str
    created: bool


@dataclass(frozen=True)
class StateAddition:
    """A handle ``name`` that does not exist yet, with its first state. The ``repr`` omits ``state``."""

    name: str
    state: bytes = field(repr=False)
    labels: Mapping[str, str] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class StateReplacement:
    """The new state of the handle ``name``, which must be at ``version``. If ``labels`` is None, its labels stay.

    The ``repr`` omits ``state``.
    """

    name: str
    version: str
    state: bytes = field(repr=False)
    labels: Mapping[str, str] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class FileCredential:
    """The client credential (OAuth2) with which Hadoop gets tokens for a store's files, under one epoch of the store.

    Hadoop gets the tokens at ``token_path`` of any replica. The ``repr`` omits ``client_secret``.
    """

    epoch: int
    client_id: str
    client_secret: str = field(repr=False)
    token_path: str = "/oauth2/token"


@dataclass(frozen=True)
class SessionInfo:
    """A session as the service sees it. ``ttl`` and ``expires_in`` are seconds; ``locks`` names the locked handles as
    ``store/handle``.
    """

    session: str
    ttl: float
    holder: str | None
    expires_in: float
    locks: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionSummary:
    """One living session in the list of sessions. ``ttl`` and ``expires_in`` are seconds.

    ``locks`` counts the handles that the session locked one by one; the count may include some that it released with a
    whole store. ``locked_stores`` counts the stores in which it locked all handles at once. ``epochs`` has the epochs
    that it holds, by store; ``more_epochs`` is true if it holds more than a listing shows.
    """

    session: str
    ttl: float
    holder: str | None
    expires_in: float
    locks: int
    locked_stores: int
    epochs: Mapping[str, int] = field(default_factory=dict, hash=False)
    more_epochs: bool = False


@dataclass(frozen=True)
class Process:
    """The process that holds a session, as its client describes it, for people to read.

    ``host`` is the name of its machine, ``pid`` its id there, ``application`` the id of its application in Spark, and
    ``ui`` the address of Spark's user interface. Each is None if the client did not state it.
    """

    host: str | None = None
    pid: int | None = None
    application: str | None = None
    ui: str | None = None


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


@dataclass(frozen=True)
class StoreSummary:
    """One store in the list of stores, with the number of its ``handles`` and the ``revision`` at which they were
    counted.

    ``epoch`` is the number of its current epoch, 0 if it never had one; None if the store's own record is damaged.
    ``session``, ``holder`` and ``since`` describe the session that holds the epoch, and are None if no session does.
    ``snapshot`` is the newest snapshot of the job's files, None if there is none. ``damaged`` counts the records that
    cannot be read. An earlier release of the service does not report ``session``, ``holder``, ``since``, ``snapshot``
    and ``damaged``; they are None with such a service.
    """

    store: str
    handles: int
    revision: int
    epoch: int | None
    session: str | None = None
    holder: str | None = None
    since: datetime | None = None
    snapshot: Snapshot | None = None
    damaged: int | None = None


@dataclass(frozen=True)
class StoreEvent:
    """One committed change of a store, as `docs/wire.md` lists them.

    ``type`` is, for example, ``added``, ``replaced`` or ``removed``; ``name``, ``version`` and ``epoch`` are those of
    the handle, and None for an event that has none. ``revision`` orders all events, and ``id`` is the place from which
    a watch goes on. ``data`` has all members of the event.

    ``id`` is None for an event that the client made itself, from the difference between two readings, because the
    service did not know what had happened. Several changes of one handle may be one such event, of the revision at
    which the store was read.
    """

    type: str
    revision: int
    id: str | None
    name: str | None = None
    version: str | None = None
    epoch: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Status:
    """One replica's view of the service.

    ``role`` is ``leader`` or ``follower``, ``leader`` the URL of the leader that the replica knows, and ``term`` the
    last term that it knows. ``lease_remaining`` is the number of seconds for which the replica certainly leads; None if
    it does not lead, or leads for as long as it runs. The replica grants only epochs above ``epochs_above``; None if
    the replica is of a release that does not report this.
    """

    replica: str
    role: str
    leader: str | None
    term: int | None
    lease_remaining: float | None
    version: str
    pointers: str
    blobs: str
    epochs_above: int | None = None


@dataclass(frozen=True)
class Rights:
    """The client to which the token of a request belongs, and its rights.

    ``name`` is None where the service knows no clients by name. ``reader`` and ``writer`` are patterns of the stores
    that the client may read and change; a writer of a store may read it. An ``admin`` may do everything.
    """

    name: str | None
    reader: tuple[str, ...]
    writer: tuple[str, ...]
    admin: bool


@dataclass(frozen=True)
class SteppedDown:
    """The replica that stepped down, and the ``term`` at which it had led."""

    replica: str
    term: int

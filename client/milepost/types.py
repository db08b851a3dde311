"""The records that the SDK returns and takes, but for those about jobs: frozen dataclasses without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
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
    "Verification",
    "JobFile",
    "WrittenFile",
    "StateAddition",
    "StateReplacement",
    "FileCredential",
    "SessionInfo",
    "SessionSummary",
    "Process",
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
class Placement:
    """What one cell knows of where ``job`` is. ``cell`` is the cell's name, None for a deployment that is no cell, and
    ``cells`` its list of all cells, sorted.

    ``placement`` is ``here``, or ``none`` if the cell never knew the job. It is ``moved`` if the job was moved to the
    cell ``other`` under ``epoch``, and ``arriving`` while it is moved from ``other``. ``seal`` proves to the other cell
    that the job was moved.
    """

    job: str
    cell: str | None
    cells: tuple[str, ...]
    placement: str
    other: str | None = None
    epoch: int | None = None
    seal: str | None = None


@dataclass(frozen=True)
class SteppedDown:
    """The replica that stepped down, and the ``term`` at which it had led."""

    replica: str
    term: int

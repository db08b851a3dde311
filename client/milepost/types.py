"""The records that the SDK returns: frozen, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

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
    "FileCredential",
    "SessionInfo",
    "SessionSummary",
    "StoreSummary",
    "Status",
    "SteppedDown",
]


@dataclass(frozen=True)
class Handle:
    """A named, versioned pointer to one immutable state.

    ``version`` is opaque: it can only be compared. ``size`` is in bytes, ``sha256`` lower-case hex, times are in UTC.
    ``locks`` are the sessions that hold the handle, and ``epoch`` is that of the driver which wrote it, if any.
    ``removing`` marks a handle whose removal has begun; only listings show it.
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
    """All handles of a store, locked and sorted by name, and those whose record is damaged."""

    handles: list[Handle]
    corrupt: list[CorruptHandle]


@dataclass(frozen=True)
class Removal:
    """The end of a removal: the handle was ``removed``, or the sessions ``locks`` still hold it."""

    removed: bool
    locks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Epoch:
    """A driver's leadership over one store. If there never was one, ``epoch`` is 0 and the rest is None."""

    epoch: int
    session: str | None = None
    holder: str | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Snapshot:
    """The files of a job at ``revision``, right after the query in ``directory`` committed ``batch``.

    ``intact`` says whether the bytes of all its files are there; None if that was not checked. ``taken`` is when the
    batch was committed, and ``epoch`` the epoch under which; None where the service does not know.
    """

    directory: str
    batch: int
    revision: int
    intact: bool | None = None
    taken: datetime | None = field(default=None, compare=False)
    epoch: int | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The directory in the job's ``.snapshot`` from which all files can be read, while the snapshot is kept."""
        return f"@{self.revision}"


@dataclass(frozen=True)
class Savepoint:
    """A snapshot that is kept until the savepoint is dropped.

    ``name`` is also the directory in the job's ``.snapshot`` from which all files can be read.
    """

    name: str
    snapshot: Snapshot


@dataclass(frozen=True)
class KeptSnapshots:
    """What is kept of the files of a job: the snapshots of the last batches, and the savepoints, each the oldest first.

    ``passed_over`` are snapshots from after the one that a rollback went back to, and the one of what was there right
    before it. To go back to one of them undoes the rollback. They go once the query has made ten new snapshots.
    """

    snapshots: list[Snapshot]
    savepoints: list[Savepoint]
    passed_over: list[Snapshot] = field(default_factory=list)


@dataclass(frozen=True)
class DamagedFile:
    """A file whose bytes are not what was written, and why that is known."""

    path: str
    reason: str


@dataclass(frozen=True)
class Verification:
    """What was found of the files of a job.

    There are ``files`` files of ``bytes`` bytes now, and they are ``intact`` or not. ``kept`` says the same of each
    snapshot and savepoint. ``damaged`` names a hundred of the ``damaged_count`` damaged files at most.
    """

    files: int
    bytes: int
    intact: bool
    damaged: list[DamagedFile]
    damaged_count: int
    kept: KeptSnapshots


@dataclass(frozen=True)
class Clone:
    """What was copied from another job: ``files`` files of ``bytes`` bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class JobFile:
    """A file or a directory in the tree of a job.

    ``size`` is in bytes, ``sha256`` lower-case hex, and both say nothing of a directory. ``version`` is opaque: another
    one whenever something else is at the path. ``modified`` (UTC) is when it came, and ``age`` how many seconds ago
    that was, both by the service's clock. ``epoch`` is that of the driver which wrote it, if any. Only a listing tells
    the last two.
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
    """A file that was written: its size in bytes, its lower-case hex digest, and its version.

    ``created`` says that nothing was at the path before.
    """

    path: str
    size: int
    sha256: str
    version: str
    created: bool


@dataclass(frozen=True)
class FileCredential:
    """What Hadoop's client shows, under one epoch of a store, to get tokens for the store's files (OAuth2).

    It gets them at ``token_path`` of any replica. ``client_secret`` is left out of the ``repr``.
    """

    epoch: int
    client_id: str
    client_secret: str = field(repr=False)
    token_path: str = "/oauth2/token"


@dataclass(frozen=True)
class SessionInfo:
    """A session as the service sees it. ``ttl`` and ``expires_in`` are seconds; ``locks`` are ``store/handle``."""

    session: str
    ttl: float
    holder: str | None
    expires_in: float
    locks: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionSummary:
    """One living session in the list of sessions. ``ttl`` and ``expires_in`` are seconds.

    ``locks`` counts the handles that it locked one by one; some that it gave back with a whole store may be among them.
    ``locked_stores`` counts the stores of which it locked all handles at once. ``epochs`` has the epochs that it holds,
    by store; where there are more than the service tells in a listing, ``more_epochs`` is true.
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
class StoreSummary:
    """One store in the list of stores, with the number of its ``handles`` and the ``revision`` that this reflects.

    ``epoch`` is the number of its current epoch, 0 if there never was one; None if the store's own record is damaged.
    ``session``, ``holder`` and ``since`` are of who holds it, None if nobody does. ``snapshot`` is the newest snapshot
    of the job's files, None if there is none. ``damaged`` counts the records that cannot be read. A service of an
    earlier release says nothing of these five, and then they are None.
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
class Status:
    """One replica's view of the service.

    ``role`` is ``leader`` or ``follower``, ``leader`` the URL of the leader that the replica knows, and ``term`` the
    last term that it knows. ``lease_remaining`` is for how many seconds it certainly leads; None if it does not lead,
    or leads for as long as it runs. The replica grants only epochs above ``epochs_above``; None if it does not say so.
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
class SteppedDown:
    """The replica that let another lead, and the ``term`` at which it had led."""

    replica: str
    term: int

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
    "Cut",
    "Pin",
    "KeptCuts",
    "DamagedFile",
    "Verification",
    "FileCredential",
    "SessionInfo",
    "StoreSummary",
    "Status",
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
class Cut:
    """The files of a job at ``revision``, right after the query in ``directory`` committed ``batch``.

    ``intact`` says whether the bytes of all its files are there; None if that was not looked at.
    """

    directory: str
    batch: int
    revision: int
    intact: bool | None = None

    @property
    def snapshot(self) -> str:
        """The directory in the job's ``.snapshot`` where all files can be read as they were, while the cut is kept."""
        return f"@{self.revision}"


@dataclass(frozen=True)
class Pin:
    """A cut that stays for as long as it has this ``name``: a savepoint."""

    name: str
    cut: Cut

    @property
    def snapshot(self) -> str:
        """The directory in the job's ``.snapshot`` where all files can be read as they were, while the pin is there."""
        return self.name


@dataclass(frozen=True)
class KeptCuts:
    """What is kept of the files of a job: the cuts of the last batches, and the pins, each the oldest first."""

    cuts: list[Cut]
    pins: list[Pin]


@dataclass(frozen=True)
class DamagedFile:
    """A file whose bytes are not what was written, and why that is known."""

    path: str
    reason: str


@dataclass(frozen=True)
class Verification:
    """What was found of the files of a job.

    There are ``files`` files of ``bytes`` bytes now, and they are ``intact`` or not. ``kept`` says the same of each cut
    and pin. ``damaged`` names a hundred of the ``damaged_count`` damaged files at most.
    """

    files: int
    bytes: int
    intact: bool
    damaged: list[DamagedFile]
    damaged_count: int
    kept: KeptCuts


@dataclass(frozen=True)
class Clone:
    """What was copied from another job: ``files`` files of ``bytes`` bytes."""

    files: int
    bytes: int


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
class StoreSummary:
    """One store in the list of stores, with the number of its ``handles`` and the ``revision`` that this reflects.

    ``epoch`` is the number of its current epoch, 0 if there never was one; None if the store's own record is damaged.
    """

    store: str
    handles: int
    revision: int
    epoch: int | None


@dataclass(frozen=True)
class Status:
    """One replica's view of the service.

    ``role`` is ``leader`` or ``follower``, ``leader`` the URL of the leader that the replica knows, and ``term`` the
    last term that it knows. ``lease_remaining`` is for how many seconds it certainly leads; None if it does not lead,
    or leads for as long as it runs.
    """

    replica: str
    role: str
    leader: str | None
    term: int | None
    lease_remaining: float | None
    version: str
    pointers: str
    blobs: str

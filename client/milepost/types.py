"""The records that the SDK returns: frozen, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

__all__ = [
    "Handle",
    "CorruptHandle",
    "LockedHandles",
    "Removal",
    "Epoch",
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

"""What the SDK hands back: frozen records, nothing else."""

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

    ``version`` is opaque: compare it, nothing else. ``size`` is in bytes, ``sha256`` lower-case hex, times are in UTC.
    ``locks`` are the sessions that hold it, ``epoch`` the driver's under which it was written, if any; ``removing``
    marks one whose removal has begun (only listings show it).
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
    """A handle whose record cannot be read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class LockedHandles:
    """All handles of a store, by name and locked, and those that are damaged."""

    handles: list[Handle]
    corrupt: list[CorruptHandle]


@dataclass(frozen=True)
class Removal:
    """How releaseAndTryRemove ended: ``removed``, or still held by the sessions ``locks``."""

    removed: bool
    locks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Epoch:
    """A driver's leadership over one store. ``epoch`` is 0 (and the rest None) where there never was one."""

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
    """One store in the list of stores."""

    store: str
    handles: int
    revision: int
    epoch: int | None


@dataclass(frozen=True)
class Status:
    """One replica's view of the service. ``lease_remaining`` is seconds."""

    replica: str
    role: str
    leader: str | None
    term: int | None
    lease_remaining: float | None
    version: str
    pointers: str
    blobs: str

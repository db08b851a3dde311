"""Define what is asked about handles, their locks and uploads, and about the epoch of a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from milepost_server.model.requests.base import (
    NO_BLOB,
    BlobRef,
    HandleRequest,
    Keeper,
    StoreRequest,
    UploadRef,
    fingerprint_of,
)


@dataclass(frozen=True, slots=True)
class Add(HandleRequest):
    """Add a handle and lock it (Flink's addAndLock).

    With ``upload``, the bytes are an upload's, and ``blob`` is what is announced (no key). With ``data``, the bytes are
    these, and have no blob.
    """

    fenced: ClassVar[bool] = True

    epoch: int | None = None
    blob: BlobRef = NO_BLOB
    labels: Mapping[str, str] = field(default_factory=dict)
    upload: UploadRef | None = None
    data: bytes | None = field(default=None, repr=False)

    def fingerprint(self) -> str:
        return fingerprint_of("Add", self.name, "", self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Replace(HandleRequest):
    """Replace a state at ``version`` (Flink's replace). Labels of None keep the old ones. For the rest see `Add`."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None
    version: str = ""
    blob: BlobRef = NO_BLOB
    labels: Mapping[str, str] | None = None
    upload: UploadRef | None = None
    data: bytes | None = field(default=None, repr=False)

    def fingerprint(self) -> str:
        return fingerprint_of("Replace", self.name, self.version, self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Remove(HandleRequest):
    """Release a handle and remove it, optionally only at ``version`` (Flink's releaseAndTryRemove)."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None
    version: str | None = None

    def fingerprint(self) -> str:
        return fingerprint_of("Remove", self.name, self.version or "")


@dataclass(frozen=True, slots=True)
class LockHandle(HandleRequest):
    """Lock a handle and return its record (Flink's getAndLock)."""


@dataclass(frozen=True, slots=True)
class ReleaseHandle(HandleRequest):
    """Release the session's lock on a handle (Flink's release)."""


@dataclass(frozen=True, slots=True)
class LockAll(StoreRequest):
    """Lock all handles and return their records (Flink's getAllAndLock)."""


@dataclass(frozen=True, slots=True)
class ReleaseAll(StoreRequest):
    """Release all locks of the session in a store (Flink's releaseAll)."""


@dataclass(frozen=True, slots=True)
class Clear(StoreRequest):
    """Remove all handles of a store, and leave the blobs (Flink's clearEntries)."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CreateUpload(StoreRequest):
    """Let a client put bytes itself: ``blob`` says where and what, ``ttl`` for how many seconds."""

    keeper: ClassVar[Keeper] = Keeper.NONE

    upload: str = ""
    blob: BlobRef = NO_BLOB
    ttl: float = 0.0

    def fingerprint(self) -> str:
        return fingerprint_of("CreateUpload", self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Campaign(StoreRequest):
    """Ask for the epoch of a store."""


@dataclass(frozen=True, slots=True)
class Resign(StoreRequest):
    """Give the epoch of a store back."""


@dataclass(frozen=True, slots=True)
class ExpireUpload(StoreRequest):
    """End an upload whose time is up; a request of the leader's own."""

    by_leader: ClassVar[bool] = True

    upload: str = ""


@dataclass(frozen=True, slots=True)
class FinishRemoval(HandleRequest):
    """Let a record go, since the blob of this ``version`` has been discarded; a request of the leader's own."""

    by_leader: ClassVar[bool] = True

    version: str = ""


@dataclass(frozen=True, slots=True)
class Scrub(StoreRequest):
    """Drop records that only wait to be dropped (gone, cleared, used up, long ended); a request of the leader's own."""

    by_leader: ClassVar[bool] = True

    keys: tuple[str, ...] = ()

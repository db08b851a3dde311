"""Define the requests about handles, their locks and uploads, and about the epoch of a store."""

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

    With ``upload``, the bytes are those of the upload, and ``blob`` has only their announced size and digest, without a
    key. With ``data``, the bytes are in the request, and there is no blob. With neither, the bytes are in ``blob``.
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
class StatedAct:
    """What a client says that its change of a handle does to the job: the ``kind`` of an entry of the history, and
    ``about``, members of that entry.
    """

    kind: str
    about: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Replace(HandleRequest):
    """Replace a state at ``version`` (Flink's replace). If ``labels`` is None, the labels stay.

    The bytes are given as in `Add`: by ``upload``, ``data`` or ``blob``. ``act`` is entered into the history of the
    job.
    """

    fenced: ClassVar[bool] = True

    epoch: int | None = None
    version: str = ""
    blob: BlobRef = NO_BLOB
    labels: Mapping[str, str] | None = None
    upload: UploadRef | None = None
    data: bytes | None = field(default=None, repr=False)
    act: StatedAct | None = None

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
    """Remove all handles of a store, without deleting their blobs (Flink's clearEntries)."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class DropJob(StoreRequest):
    """Drop a job: all handles and files of a store, with its snapshots and savepoints, in one commit."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ReportRows(StoreRequest):
    """Enter into the history how many input rows committed batches of the query in ``directory`` had: ``rows`` by the
    number of the batch.
    """

    fenced: ClassVar[bool] = True
    keeper: ClassVar[Keeper] = Keeper.NONE

    epoch: int | None = None
    directory: str = ""
    rows: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateUpload(StoreRequest):
    """Create an upload, which lets a client put bytes itself: ``blob`` is their key, size and digest.

    The upload expires after ``ttl`` seconds.
    """

    keeper: ClassVar[Keeper] = Keeper.NONE

    upload: str = ""
    blob: BlobRef = NO_BLOB
    ttl: float = 0.0

    def fingerprint(self) -> str:
        return fingerprint_of("CreateUpload", self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Campaign(StoreRequest):
    """Ask for the epoch of a store. With ``if_stopped``, the epoch is granted although a person has stopped the job."""

    if_stopped: bool = False


@dataclass(frozen=True, slots=True)
class Resign(StoreRequest):
    """Resign the epoch of a store, so that another session can be granted the next one."""


@dataclass(frozen=True, slots=True)
class ExpireUpload(StoreRequest):
    """End an upload that has expired. Made by the leader itself."""

    by_leader: ClassVar[bool] = True

    upload: str = ""


@dataclass(frozen=True, slots=True)
class FinishRemoval(HandleRequest):
    """Mark a handle as removed, since the blob of this ``version`` has been deleted. Made by the leader itself."""

    by_leader: ClassVar[bool] = True

    version: str = ""


@dataclass(frozen=True, slots=True)
class Scrub(StoreRequest):
    """Drop the records under ``keys`` that are not needed any more: of removed or cleared handles, used uploads, and
    sessions that ended long ago. Made by the leader itself.
    """

    by_leader: ClassVar[bool] = True

    keys: tuple[str, ...] = ()

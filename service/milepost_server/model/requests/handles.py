"""Define the requests about handles, their locks and uploads, and about the epoch of a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from milepost_server.model.requests.base import (
    NO_BLOB,
    BlobRef,
    HandleRequest,
    Keeper,
    StoreRequest,
    UploadRef,
    fingerprint_of,
)


class Add(HandleRequest, frozen=True, gc=False):
    """Add a handle and lock it (Flink's addAndLock).

    With ``upload``, the bytes are those of the upload, and ``blob`` has only their announced size and digest, without a
    key. With ``data``, the bytes are in the request, and there is no blob. With neither, the bytes are in ``blob``.
    """

    fenced: ClassVar[bool] = True

    epoch: int | None = None
    blob: BlobRef = NO_BLOB
    labels: Mapping[str, str] = {}
    upload: UploadRef | None = None
    data: bytes | None = None

    def fingerprint(self) -> str:
        return fingerprint_of("Add", self.name, "", self.blob.size, self.blob.sha256)


class StatedAct(msgspec.Struct, frozen=True, gc=False):
    """What a client says that its change of a handle does to the job: the ``kind`` of an entry of the history, and
    ``about``, members of that entry.
    """

    kind: str
    about: Mapping[str, int]


class Replace(HandleRequest, frozen=True, gc=False):
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
    data: bytes | None = None
    act: StatedAct | None = None

    def fingerprint(self) -> str:
        return fingerprint_of("Replace", self.name, self.version, self.blob.size, self.blob.sha256)


class Remove(HandleRequest, frozen=True, gc=False):
    """Release a handle and remove it, optionally only at ``version`` (Flink's releaseAndTryRemove)."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None
    version: str | None = None

    def fingerprint(self) -> str:
        return fingerprint_of("Remove", self.name, self.version or "")


class LockHandle(HandleRequest, frozen=True, gc=False):
    """Lock a handle and return its record (Flink's getAndLock)."""


class ReleaseHandle(HandleRequest, frozen=True, gc=False):
    """Release the session's lock on a handle (Flink's release)."""


class LockAll(StoreRequest, frozen=True, gc=False):
    """Lock all handles and return their records (Flink's getAllAndLock)."""


class ReleaseAll(StoreRequest, frozen=True, gc=False):
    """Release all locks of the session in a store (Flink's releaseAll)."""


class Clear(StoreRequest, frozen=True, gc=False):
    """Remove all handles of a store, without deleting their blobs (Flink's clearEntries)."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None


class DropJob(StoreRequest, frozen=True, gc=False):
    """Drop a job: all handles and files of a store, with its snapshots and savepoints, in one commit."""

    fenced: ClassVar[bool] = True

    epoch: int | None = None


class ReportRows(StoreRequest, frozen=True, gc=False):
    """Enter into the history how many input rows committed batches of the query in ``directory`` had: ``rows`` by the
    number of the batch.
    """

    fenced: ClassVar[bool] = True
    keeper: ClassVar[Keeper] = Keeper.NONE

    epoch: int | None = None
    directory: str = ""
    rows: Mapping[int, int] = {}


class PlaceJob(StoreRequest, frozen=True, gc=False):
    """Begin a store in this cell, for a client whose list of cells has the digest ``cells``."""

    needs_session: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.NONE

    cells: str = ""


class CreateUpload(StoreRequest, frozen=True, gc=False):
    """Create an upload, which lets a client put bytes itself: ``blob`` is their key, size and digest.

    The upload expires after ``ttl`` seconds.
    """

    keeper: ClassVar[Keeper] = Keeper.NONE

    upload: str = ""
    blob: BlobRef = NO_BLOB
    ttl: float = 0.0

    def fingerprint(self) -> str:
        return fingerprint_of("CreateUpload", self.blob.size, self.blob.sha256)


class Campaign(StoreRequest, frozen=True, gc=False):
    """Ask for the epoch of a store. With ``if_stopped``, the epoch is granted although a person has stopped the job."""

    if_stopped: bool = False


class Resign(StoreRequest, frozen=True, gc=False):
    """Resign the epoch of a store, so that another session can be granted the next one."""


class ExpireUpload(StoreRequest, frozen=True, gc=False):
    """End an upload that has expired. Made by the leader itself."""

    by_leader: ClassVar[bool] = True

    upload: str = ""


class FinishRemoval(HandleRequest, frozen=True, gc=False):
    """Mark a handle as removed, since the blob of this ``version`` has been deleted. Made by the leader itself."""

    by_leader: ClassVar[bool] = True

    version: str = ""


class Scrub(StoreRequest, frozen=True, gc=False):
    """Drop the records under ``keys`` that are not needed any more: of removed or cleared handles, used uploads, and
    sessions that ended long ago. Made by the leader itself.
    """

    by_leader: ClassVar[bool] = True

    keys: tuple[str, ...] = ()

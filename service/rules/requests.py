"""Define what can be asked of the rules: one frozen class for each operation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A reference to bytes that are already in the blob store: key, size in bytes, lower-case hex SHA-256."""

    key: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class UploadRef:
    """A reference to an upload, by its id, whose bytes a handle is to take.

    ``found`` is what was seen where the bytes belong; None for nothing. Its digest is empty if the size is already
    wrong.
    """

    id: str
    found: BlobRef | None = None


KeyScope = tuple[str, str, str]
"""Store (or the empty string), session, idempotency key: within these three a key names one request."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a request: the session that acts, the idempotency key, and the number of this try, from 1.

    A request without a key cannot be retried.
    """

    session: str
    key: str | None = None
    number: int = 1


LEADER = Attempt("")
"""The attempt of every request that the leader makes of itself: there is no session, and no retry."""


@dataclass(frozen=True, slots=True)
class Request:
    """What every changing request carries: the attempt that it is made by."""

    attempt: Attempt

    @property
    def session(self) -> str:
        """The id of the session that acts."""
        return self.attempt.session

    @property
    def key(self) -> str | None:
        """The idempotency key; the journal gives an id of its own to a request without one (see `with_id`)."""
        return self.attempt.key

    @property
    def store(self) -> str | None:
        """Return the store that the request is about; None for a request about a session."""
        return None

    @property
    def scope(self) -> KeyScope:
        """The scope of the idempotency key."""
        return (self.store or "", self.attempt.session, self.attempt.key or "")

    def fingerprint(self) -> str:
        """Return what must be equal for two requests under one key to count as the same request."""
        return _fingerprint(type(self).__name__)


@dataclass(frozen=True, slots=True)
class StoreRequest(Request):
    """This request is about one store."""

    store_name: str = ""

    @property
    def store(self) -> str | None:
        return self.store_name


@dataclass(frozen=True, slots=True)
class HandleRequest(StoreRequest):
    """This request is about one handle."""

    name: str = ""

    def fingerprint(self) -> str:
        return _fingerprint(type(self).__name__, self.name)


@dataclass(frozen=True, slots=True)
class Add(HandleRequest):
    """Add a handle and lock it (Flink's addAndLock).

    With ``upload``, the bytes are an upload's, and ``blob`` is what is announced (no key).
    """

    epoch: int | None = None
    blob: BlobRef = BlobRef("", 0, "")
    labels: Mapping[str, str] = field(default_factory=dict)
    upload: UploadRef | None = None

    def fingerprint(self) -> str:
        return _fingerprint("Add", self.name, "", self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Replace(HandleRequest):
    """Replace a state at ``version`` (Flink's replace). Labels of None keep the old ones. For ``upload`` see `Add`."""

    epoch: int | None = None
    version: str = ""
    blob: BlobRef = BlobRef("", 0, "")
    labels: Mapping[str, str] | None = None
    upload: UploadRef | None = None

    def fingerprint(self) -> str:
        return _fingerprint("Replace", self.name, self.version, self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Remove(HandleRequest):
    """Release a handle and remove it, optionally only at ``version`` (Flink's releaseAndTryRemove)."""

    epoch: int | None = None
    version: str | None = None

    def fingerprint(self) -> str:
        return _fingerprint("Remove", self.name, self.version or "")


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

    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CreateUpload(StoreRequest):
    """Let a client put bytes itself: ``blob`` says where and what, ``ttl`` for how many seconds."""

    upload: str = ""
    blob: BlobRef = BlobRef("", 0, "")
    ttl: float = 0.0

    def fingerprint(self) -> str:
        return _fingerprint("CreateUpload", self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Campaign(StoreRequest):
    """Ask for the epoch of a store."""


@dataclass(frozen=True, slots=True)
class Resign(StoreRequest):
    """Give the epoch of a store back."""


@dataclass(frozen=True, slots=True)
class OpenSession(Request):
    """Create a session, or renew the one that lives under this id."""

    ttl: float = 0.0
    holder: str = ""

    def fingerprint(self) -> str:
        return _fingerprint("OpenSession", self.ttl, self.holder)


@dataclass(frozen=True, slots=True)
class EndSession(Request):
    """End a session that its client asks to end."""


@dataclass(frozen=True, slots=True)
class ExpireSession(Request):
    """End the session created at revision ``born``, whose deadline has passed; a request of the leader's own."""

    born: int = 0


@dataclass(frozen=True, slots=True)
class ExpireUpload(StoreRequest):
    """End an upload whose time is up; a request of the leader's own."""

    upload: str = ""


@dataclass(frozen=True, slots=True)
class FinishRemoval(HandleRequest):
    """Let a record go, since the blob of this ``version`` has been discarded; a request of the leader's own."""

    version: str = ""


@dataclass(frozen=True, slots=True)
class Scrub(StoreRequest):
    """Drop records that only wait to be dropped (gone, cleared, used up, long ended); a request of the leader's own."""

    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateDeployment(Request):
    """Give the deployment the id ``deployment`` if it has none, before the leader serves; a request of its own."""

    deployment: str = ""


INTERNAL = (CreateDeployment, ExpireSession, ExpireUpload, FinishRemoval, Scrub)
"""The leader makes these requests itself: they need no session, and are decided anew after a doubt."""


def with_id(request: Request, identity: str) -> Request:
    """Return the same request under an id of the leader's, which no client can send: it begins with a blank."""
    return replace(request, attempt=replace(request.attempt, key=f" {identity}"))


def is_leaders(key: str) -> bool:
    """Return whether an idempotency key is an id of the leader's making."""
    return key.startswith(" ")


def _fingerprint(*parts: object) -> str:
    return hashlib.blake2b("\x00".join(map(str, parts)).encode(), digest_size=12).hexdigest()

"""What can be asked of the rules: one frozen record per operation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Bytes that lie in the blob store already: key, size in bytes, lower-case hex SHA-256."""

    key: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class UploadRef:
    """An upload, by its id, whose bytes a handle is to take.

    ``found``: what was seen to lie where the bytes belong; None for nothing. Its digest is empty where already the size
    is wrong.
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
        """The store that the request is about; None for a request about a session."""
        return None

    @property
    def scope(self) -> KeyScope:
        """The scope of the idempotency key."""
        return (self.store or "", self.attempt.session, self.attempt.key or "")

    def fingerprint(self) -> str:
        """What must be equal for two requests under one key to be the same request."""
        return _fingerprint(type(self).__name__)


@dataclass(frozen=True, slots=True)
class StoreRequest(Request):
    """A request about one store."""

    store_name: str = ""

    @property
    def store(self) -> str | None:
        return self.store_name


@dataclass(frozen=True, slots=True)
class HandleRequest(StoreRequest):
    """A request about one handle."""

    name: str = ""

    def fingerprint(self) -> str:
        return _fingerprint(type(self).__name__, self.name)


@dataclass(frozen=True, slots=True)
class Add(HandleRequest):
    """addAndLock. ``upload``: the bytes are those of an upload, and ``blob`` is what is said of them (no key)."""

    epoch: int | None = None
    blob: BlobRef = BlobRef("", 0, "")
    labels: Mapping[str, str] = field(default_factory=dict)
    upload: UploadRef | None = None

    def fingerprint(self) -> str:
        return _fingerprint("Add", self.name, "", self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Replace(HandleRequest):
    """replace: compare-and-set on ``version``. No labels given (None) keeps the old ones. ``upload``: see `Add`."""

    epoch: int | None = None
    version: str = ""
    blob: BlobRef = BlobRef("", 0, "")
    labels: Mapping[str, str] | None = None
    upload: UploadRef | None = None

    def fingerprint(self) -> str:
        return _fingerprint("Replace", self.name, self.version, self.blob.size, self.blob.sha256)


@dataclass(frozen=True, slots=True)
class Remove(HandleRequest):
    """releaseAndTryRemove, optionally only at ``version``."""

    epoch: int | None = None
    version: str | None = None

    def fingerprint(self) -> str:
        return _fingerprint("Remove", self.name, self.version or "")


@dataclass(frozen=True, slots=True)
class LockHandle(HandleRequest):
    """getAndLock."""


@dataclass(frozen=True, slots=True)
class ReleaseHandle(HandleRequest):
    """release."""


@dataclass(frozen=True, slots=True)
class LockAll(StoreRequest):
    """getAllAndLock."""


@dataclass(frozen=True, slots=True)
class ReleaseAll(StoreRequest):
    """releaseAll."""


@dataclass(frozen=True, slots=True)
class Clear(StoreRequest):
    """clearEntries."""

    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CreateUpload(StoreRequest):
    """Let somebody put bytes by himself: ``blob`` says where and what, ``ttl`` for how many seconds."""

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
    """End a session at its own wish."""


@dataclass(frozen=True, slots=True)
class ExpireSession(Request):
    """The leader's own: end the session created at revision ``born``, whose deadline has passed."""

    born: int = 0


@dataclass(frozen=True, slots=True)
class ExpireUpload(StoreRequest):
    """The leader's own: end an upload whose time is up."""

    upload: str = ""


@dataclass(frozen=True, slots=True)
class FinishRemoval(HandleRequest):
    """The leader's own: the blob of this ``version`` has been discarded, so the record may go."""

    version: str = ""


@dataclass(frozen=True, slots=True)
class Scrub(StoreRequest):
    """The leader's own: drop records that only wait to be dropped (gone, cleared, used up, long ended)."""

    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateDeployment(Request):
    """The leader's own, before it serves: the deployment has an id, ``deployment`` if it had none before."""

    deployment: str = ""


INTERNAL = (CreateDeployment, ExpireSession, ExpireUpload, FinishRemoval, Scrub)
"""Requests that the leader makes of itself: they need no session and are decided anew after a doubt."""


def with_id(request: Request, identity: str) -> Request:
    """The same request under a leader-made id, which no client can send: it begins with a blank."""
    return replace(request, attempt=replace(request.attempt, key=f" {identity}"))


def is_leaders(key: str) -> bool:
    """Whether an idempotency key is an id of the leader's making."""
    return key.startswith(" ")


def _fingerprint(*parts: object) -> str:
    return hashlib.blake2b("\x00".join(map(str, parts)).encode(), digest_size=12).hexdigest()

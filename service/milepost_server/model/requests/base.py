"""Define what every request has, and how it is told from others."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A reference to bytes that are already in the blob store: key, size in bytes, lower-case hex SHA-256."""

    key: str
    size: int
    sha256: str


NO_BLOB = BlobRef("", 0, "")
"""What a request refers to that has no bytes, or has them itself."""


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

    A request without a key cannot be retried. ``client`` is the name of the client that makes it, if it may act in
    sessions of its own alone; None if it may act in all of them.
    """

    session: str
    key: str | None = None
    number: int = 1
    client: str | None = None


LEADER = Attempt("")
"""The attempt of every request that the leader makes of itself: there is no session, and no retry."""


class Keeper(Enum):
    """The record that keeps the answer to a request, for retries."""

    NONE = auto()
    """Only the record that the request makes, or none: to do it a second time changes nothing."""
    SESSION = auto()
    STORE = auto()
    HANDLE = auto()
    TREE = auto()
    PATH = auto()


@dataclass(frozen=True, slots=True)
class Request:
    """What every changing request carries: the attempt that it is made by. The class says what the rules ask of it.

    A request ``by_leader`` is one that the leader makes of itself: it has no session, and is decided anew after a
    doubt. One that ``needs_session`` is made by a living session; of another, a session that it names has to live. A
    ``fenced`` one needs the current epoch of its store. ``keeper`` is the record that keeps its answer. One that is
    ``remembered`` may be sent again after its record is gone, so the leader remembers it by itself.
    """

    by_leader: ClassVar[bool] = False
    needs_session: ClassVar[bool] = True
    fenced: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.NONE
    remembered: ClassVar[bool] = False

    attempt: Attempt

    @property
    def epoch(self) -> int | None:
        """The epoch under which it is made; None if it names none."""
        return None

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
        return fingerprint_of(type(self).__name__)


@dataclass(frozen=True, slots=True)
class StoreRequest(Request):
    """This request is about one store."""

    keeper: ClassVar[Keeper] = Keeper.STORE

    store_name: str = ""

    @property
    def store(self) -> str | None:
        return self.store_name


@dataclass(frozen=True, slots=True)
class HandleRequest(StoreRequest):
    """This request is about one handle."""

    keeper: ClassVar[Keeper] = Keeper.HANDLE

    name: str = ""

    def fingerprint(self) -> str:
        return fingerprint_of(type(self).__name__, self.name)


def with_id(request: Request, identity: str) -> Request:
    """Return the same request under an id of the leader's, which no client can send: it begins with a blank."""
    return replace(request, attempt=replace(request.attempt, key=f" {identity}"))


def is_leaders(key: str) -> bool:
    """Return whether an idempotency key is an id of the leader's making."""
    return key.startswith(" ")


def fingerprint_of(*parts: object) -> str:
    return hashlib.blake2b("\x00".join(map(str, parts)).encode(), digest_size=12).hexdigest()

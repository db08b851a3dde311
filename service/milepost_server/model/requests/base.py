"""Define the common parts of all requests: attempt, idempotency key, scope and fingerprint."""

from __future__ import annotations

import hashlib
from enum import Enum, auto
from typing import ClassVar

import msgspec
from msgspec.structs import replace


class BlobRef(msgspec.Struct, frozen=True, gc=False):
    """A reference to bytes that are already in the blob store: key, size in bytes, lower-case hex SHA-256."""

    key: str
    size: int
    sha256: str


NO_BLOB = BlobRef("", 0, "")
"""The reference in a request that has no bytes, or that contains the bytes itself."""


class UploadRef(msgspec.Struct, frozen=True, gc=False):
    """A reference, by id, to an upload whose bytes a handle takes over.

    ``found`` is the blob that was found under the upload's key; None if there was none. The digest of this blob is
    empty if its size is not the announced one.
    """

    id: str
    found: BlobRef | None = None


KeyScope = tuple[str, str, str]
"""Store (or the empty string), session, idempotency key: the three together identify one request."""


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One attempt at a request: the session that makes it, the idempotency key, and the number of this attempt, from 1.

    A request without a key cannot be retried. ``client`` is the name of the client, if the client may use only its own
    sessions; None if it may use all sessions. ``name`` is the name of the client, empty if it is not known: it is only
    entered into the history.
    """

    session: str
    key: str | None = None
    number: int = 1
    client: str | None = None
    name: str = ""


LEADER = Attempt("")
"""The attempt of every request that the leader itself makes: it has no session, and is not retried."""


class Keeper(Enum):
    """Which record keeps the answer to a request, so that a retry gets the same answer."""

    NONE = auto()
    """No record keeps the answer for retries: repeating the request changes nothing, or the request's own record has
    the answer.
    """
    SESSION = auto()
    STORE = auto()
    HANDLE = auto()
    TREE = auto()
    PATH = auto()


class Request(msgspec.Struct, frozen=True, gc=False):
    """The common part of every request that changes something: its attempt. Class variables say what the rules require.

    A request ``by_leader`` is made by the leader itself: it has no session, and is decided anew if its outcome was in
    doubt. A request that ``needs_session`` must be made by a living session; for any other request, a session is
    optional, but must live if it is named. A ``fenced`` request needs the current epoch of its store. ``keeper`` is the
    record that keeps its answer. A ``remembered`` request may be repeated after the record with its answer is gone, so
    the leader also remembers the answer in memory.
    """

    by_leader: ClassVar[bool] = False
    needs_session: ClassVar[bool] = True
    fenced: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.NONE
    remembered: ClassVar[bool] = False

    attempt: Attempt

    @property
    def epoch(self) -> int | None:
        """The epoch under which the request is made; None if it has none."""
        return None

    @property
    def session(self) -> str:
        """The id of the session that makes the request."""
        return self.attempt.session

    @property
    def key(self) -> str | None:
        """The idempotency key; the journal assigns an id to a request without one (see `with_id`)."""
        return self.attempt.key

    @property
    def store(self) -> str | None:
        """Return the store that the request is about; None for a request about a session."""
        return None

    @property
    def scope(self) -> KeyScope:
        """What identifies the request among all requests: store, session and idempotency key."""
        return (self.store or "", self.attempt.session, self.attempt.key or "")

    def __repr__(self) -> str:
        """Return class and members, without the bytes of a state."""
        members = ((name, getattr(self, name)) for name in self.__struct_fields__)
        told = ", ".join(f"{name}={value!r}" for name, value in members if not isinstance(value, bytes))
        return f"{type(self).__name__}({told})"

    def fingerprint(self) -> str:
        """Return a digest of the request's content. Two requests under one idempotency key count as the same if their
        digests are equal.
        """
        return fingerprint_of(type(self).__name__)


class StoreRequest(Request, frozen=True, gc=False):
    """A request about one store."""

    keeper: ClassVar[Keeper] = Keeper.STORE

    store_name: str = ""

    @property
    def store(self) -> str | None:
        return self.store_name

    @property
    def scope(self) -> KeyScope:
        attempt = self.attempt
        return (self.store_name, attempt.session, attempt.key or "")


class HandleRequest(StoreRequest, frozen=True, gc=False):
    """A request about one handle."""

    keeper: ClassVar[Keeper] = Keeper.HANDLE

    name: str = ""

    def fingerprint(self) -> str:
        return fingerprint_of(type(self).__name__, self.name)


def with_id(request: Request, identity: str) -> Request:
    """Return the request with an id from the leader as its idempotency key. The id begins with a space, so no client
    can send it.
    """
    return replace(request, attempt=replace(request.attempt, key=f" {identity}"))


def is_leaders(key: str) -> bool:
    """Return whether an idempotency key is an id that the leader assigned to a request without a key."""
    return key.startswith(" ")


def fingerprint_of(*parts: object) -> str:
    return hashlib.blake2b("\x00".join(map(str, parts)).encode(), digest_size=12).hexdigest()

"""Define the stored data: immutable records, their keys, and their JSON form with a checksum and a schema number.

Keys are paths: ``deployment``, ``sessions/<id>``, ``stores/<store>``, ``stores/<store>/handles/<name>``,
``stores/<store>/uploads/<id>``, ``stores/<store>/tree``, ``stores/<store>/files/<hash of the path>`` and
``stores/<store>/history/<log>-<number>``. A record that cannot be read becomes a `Corrupt` in memory. It is reported,
and all other records stay usable.

Python's garbage collector ignores records (``gc=False``): they are never part of a cycle, and scanning all of them
would pause the process.
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from milepost_server.model.answered import SCHEMA, STORED_AS, WITH_DATA, WITH_MOVE, Answered, schema
from milepost_server.model.checksums import seal, unseal
from milepost_server.model.history import HistoryPage
from milepost_server.model.moves import LEAVING, Move
from milepost_server.model.paths import path_id
from milepost_server.model.processes import Process
from milepost_server.model.trees import Tree, TreePath
from milepost_server.model.wishes import Wish

KEPT_KEYS: Final = 64
KEPT_KEYS_BYTES: Final = 32 * 1024
KEPT_KEYS_SECONDS: Final = 600.0
"""The limits on the answers that a record keeps for retries: how many answers, how many bytes of them, and for how many
seconds each.

The newest answer is always kept. The limits leave room for the rest of the record, which has 512 KiB at most in some
pointer stores.
"""

ENDED_SESSION_SECONDS: Final = 3600.0
"""For how many seconds the record of an ended session is kept. While it is kept, requests with its id get 410;
afterwards they get 404.
"""


class Lock(msgspec.Struct, rename=STORED_AS, frozen=True, gc=False):
    """A lock, taken at revision ``at``. It is valid while the session that was created at ``created_revision`` is
    alive.
    """

    session: str
    created_revision: int
    at: int


class Session(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """A session, the lease of a client. ``ended`` is the revision at which it ended, 0 while it lives.

    ``owner`` is the name of the client that opened the session. It is empty if the deployment had no tokens then, or if
    a release that did not store the name opened the session. ``opened`` is the time at which the session was opened; it
    is empty if a release that did not store the time opened the session. ``process`` describes the process that holds
    the session; None if the client did not.
    """

    id: str
    ttl: float
    created_revision: int
    holder: str = ""
    ended: int = 0
    answered: tuple[Answered, ...] = ()
    evicted_answers_at: int = 0
    owner: str = ""
    opened: str = ""
    process: Process | None = None
    schema: int = msgspec.field(default_factory=schema)


class Store(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """A store's own record: its epoch, and the effects of operations on all of its handles at once.

    Handles created at or before revision ``cleared`` count as absent. Each lock in ``locked`` covers all handles that
    existed at its revision, and each lock in ``released`` ends all locks that its session held at its revision.
    ``evicted_answers_at`` is the revision of the newest answer that was dropped to make room for newer ones.
    ``granted`` is the revision at which the epoch was granted, to the session that was created at
    ``epoch_session_created``. ``dropped`` is the revision at which the job was dropped last, 0 if it never was.
    ``wish`` is the newest wish that a driver stops or hands over, None if none counts any more. ``move`` is the move of
    the job to another cell, or from one, None if there is none.
    """

    name: str
    epoch: int = 0
    epoch_session: str | None = None
    epoch_session_created: int = 0
    epoch_since: str | None = None
    cleared: int = 0
    locked: tuple[Lock, ...] = ()
    released: tuple[Lock, ...] = ()
    answered: tuple[Answered, ...] = ()
    evicted_answers_at: int = 0
    granted: int = 0
    dropped: int = 0
    wish: Wish | None = None
    move: Move | None = None
    schema: int = msgspec.field(default_factory=schema)

    def moving(self, move: Move | None, **changed: Any) -> Store:
        """Return a copy of the record with the move ``move``, and the members in ``changed`` replaced too. An earlier
        release cannot read a record with a move, so that it grants no epoch where the job is no more.
        """
        number = SCHEMA if move is None else WITH_MOVE
        return msgspec.structs.replace(self, move=move, schema=number, **changed)

    @property
    def elsewhere(self) -> Move | None:
        """The move by which the job is in another cell; None if it is here."""
        return self.move if self.move is not None and self.move.phase != LEAVING else None

    @property
    def is_dropped(self) -> bool:
        """Whether the job was dropped, and no epoch was granted since, with which it began anew."""
        return self.dropped > self.granted

    @property
    def stopped(self) -> Wish | None:
        """The wish to stop by which no epoch is granted; None if drivers may lead."""
        return self.wish if self.wish is not None and self.wish.stops else None


class Handle(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """A handle: a named, versioned pointer to one blob, or to the bytes of its state in the record itself, as ``data``.

    ``removing``: the removal of the handle has begun. ``gone``: the handle was removed, but its record stays for a
    while because of the answers in it. ``freed`` has releases of this handle alone by sessions that locked the whole
    store (`Store.locked`).
    """

    name: str
    version: str
    blob: str
    size: int
    sha256: str
    created: str
    updated: str
    created_revision: int
    changed: int
    labels: dict[str, str] = {}
    locks: tuple[Lock, ...] = ()
    freed: tuple[Lock, ...] = ()
    epoch: int | None = None
    removing: bool = False
    gone: bool = False
    data: bytes | None = None
    answered: tuple[Answered, ...] = ()
    evicted_answers_at: int = 0
    schema: int = msgspec.field(default_factory=schema)

    def holding(self, blob: str, data: bytes | None, **changed: Any) -> Handle:
        """Return a copy of the record that points to ``blob``, or contains ``data``, with the members in ``changed``
        replaced too.
        """
        number = SCHEMA if data is None else WITH_DATA
        return msgspec.structs.replace(self, blob=blob, data=data, schema=number, **changed)


class Upload(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """An upload: bytes that a client itself puts under ``blob``, for one handle to take.

    ``session`` requested the upload. A handle of any session may take it within ``ttl`` seconds. ``ended`` is the
    revision at which a handle took over ``blob`` with the bytes, or at which the upload expired; 0 while it is pending.
    After its end, the record stays for a while because of the answer in it.
    """

    id: str
    blob: str
    size: int
    sha256: str
    session: str
    ttl: float
    created_revision: int
    ended: int = 0
    answered: tuple[Answered, ...] = ()
    schema: int = msgspec.field(default_factory=schema)


class Deployment(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The deployment. Its random ``id`` is chosen once, by the first leader of the journal. The keys of all blobs begin
    with this id. ``cell`` is its name among the cells ``cells``, empty if it is no cell.
    """

    id: str
    cell: str = ""
    cells: tuple[str, ...] = ()
    schema: int = msgspec.field(default_factory=schema)

    @property
    def answered(self) -> tuple[Answered, ...]:
        """No answers: no client sends a request about the deployment, so its record keeps none."""
        return ()


@final
class Corrupt(msgspec.Struct, frozen=True, gc=False):
    """A record that cannot be read: damaged, or of a newer release. ``name`` is the last part of its key, ``reason``
    says what is wrong.
    """

    name: str
    reason: str


Stored = Deployment | Session | Store | Handle | Upload | Tree | TreePath | HistoryPage
Record = Stored | Corrupt

DEPLOYMENT_KEY: Final = "deployment"

_KINDS: Final[dict[str, type[Stored]]] = {
    DEPLOYMENT_KEY: Deployment,
    "sessions": Session,
    "stores": Store,
    "handles": Handle,
    "uploads": Upload,
    "tree": Tree,
    "files": TreePath,
    "history": HistoryPage,
}
_DECODERS: Final[dict[type[Stored], msgspec.json.Decoder[Stored]]] = {
    kind: msgspec.json.Decoder(kind, strict=True) for kind in _KINDS.values()
}
_ENCODER: Final = msgspec.json.Encoder()


def session_key(session: str) -> str:
    """Return the key of a session's record."""
    return f"sessions/{session}"


def store_key(store: str) -> str:
    """Return the key of a store's own record."""
    return f"stores/{store}"


def handle_key(store: str, name: str) -> str:
    """Return the key of a handle's record."""
    return f"stores/{store}/handles/{name}"


def upload_key(store: str, upload: str) -> str:
    """Return the key of an upload's record."""
    return f"stores/{store}/uploads/{upload}"


def tree_key(store: str) -> str:
    """Return the key of the record of a store's tree as a whole."""
    return f"stores/{store}/tree"


def store_of(key: str) -> str | None:
    """Return the store that a key belongs to; None for the key of a session or of the deployment."""
    parts = key.split("/", 2)
    return parts[1] if parts[0] == "stores" and len(parts) > 1 else None


def handle_of(key: str) -> tuple[str, str] | None:
    """Return the store and the name in a handle's key; None for another record's key."""
    return _below_store(key, "handles")


def upload_of(key: str) -> tuple[str, str] | None:
    """Return the store and the id in an upload's key; None for another record's key."""
    return _below_store(key, "uploads")


def _below_store(key: str, kind: str) -> tuple[str, str] | None:
    parts = key.split("/")
    return (parts[1], parts[3]) if len(parts) == 4 and parts[0] == "stores" and parts[2] == kind else None


def size_of(answers: tuple[Answered, ...]) -> int:
    """Return how many bytes these answers take in a stored record."""
    return len(_ENCODER.encode(answers))


def encode(key: str, record: Stored) -> bytes:
    """Encode a record under ``key`` for storing, with its checksum."""
    return seal(key, _ENCODER.encode(record))


def decode(key: str, value: bytes) -> Record:
    """Return the record under ``key``, or a `Corrupt` with the reason if it cannot be read."""
    parts = key.split("/")
    name = parts[-1]
    kind = _kind_of(parts)
    if kind is None:
        return Corrupt(name, f"no kind of record has the key {key!r}")
    try:
        record = _DECODERS[kind].decode(unseal(key, value))
    except (msgspec.DecodeError, ValueError) as error:
        return Corrupt(name, f"not a readable record: {error}")
    expected = SCHEMA
    if isinstance(record, Handle) and record.data is not None:
        expected = WITH_DATA
    elif isinstance(record, Store) and record.move is not None:
        expected = WITH_MOVE
    if record.schema != expected:
        return Corrupt(name, f"schema {record.schema} is not known here (this is schema {expected})")
    if isinstance(record, Deployment):
        return record
    if (about := _about(record)) != (parts[1] if isinstance(record, Tree) else name):
        return Corrupt(name, f"the record is about {about!r}")
    return record


def _about(record: Session | Upload | Store | Handle | Tree | TreePath | HistoryPage) -> str:
    if isinstance(record, TreePath):
        return path_id(record.path)
    return record.id if isinstance(record, Session | Upload) else record.name


def is_ours(key: str) -> bool:
    """Return whether the key has the form of a key of Milepost's records."""
    return _kind_of(key.split("/")) is not None


def _kind_of(parts: list[str]) -> type[Stored] | None:
    """Return the class of the record under a key with these parts; None for a key that is not one of Milepost's."""
    match parts:
        case ["stores", _, "handles" | "uploads" | "files" | "history" as below, _]:
            return _KINDS[below]
        case ["stores", _, "tree" as whole]:
            return _KINDS[whole]
        case ["sessions" | "stores" as first, _]:
            return _KINDS[first]
        case [only] if only == DEPLOYMENT_KEY:
            return Deployment
        case _:
            return None

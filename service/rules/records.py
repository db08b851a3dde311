"""What is stored: immutable records, their keys, and their JSON form with a checksum and a schema number.

Keys are paths: ``deployment``, ``sessions/<id>``, ``stores/<store>``, ``stores/<store>/handles/<name>`` and
``stores/<store>/uploads/<id>``. A record that cannot be read becomes a `Corrupt` in memory: it is reported, and never
hides or blocks another.

The garbage collector leaves them alone (``gc=False``): they are never part of a cycle, and to go through all of them
would stop everything else for as long.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from service.rules.checksums import seal, unseal

SCHEMA: Final = 1
KEPT_KEYS: Final = 64
KEPT_KEYS_BYTES: Final = 32 * 1024
KEPT_KEYS_SECONDS: Final = 600.0
"""How many answers, in how many bytes, and how long, are kept with their record for retries under the same idempotency
key. The newest is kept whatever its size. Each store bounds records (512 KiB): these must not use that up.
"""

ENDED_SESSION_SECONDS: Final = 3600.0
"""How long an ended session is answered 410 rather than 404."""


def _schema() -> int:
    """A default of msgspec's own kind would be left out of what is stored, and read as whatever is the default then."""
    return SCHEMA


class Answered(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The first answer to an idempotency key, kept with the record that it changed."""

    session: str
    key: str
    fingerprint: str
    revision: int
    answer: dict[str, Any]


class Lock(msgspec.Struct, frozen=True, gc=False):
    """A session's claim, valid while the session created at revision ``born`` lives; taken at revision ``at``."""

    session: str
    born: int
    at: int


class Session(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A client's lease. ``ended`` is the revision at which it ended, 0 while it lives. ``pushed``: see `Store`."""

    id: str
    ttl: float
    born: int
    holder: str = ""
    ended: int = 0
    answered: tuple[Answered, ...] = ()
    pushed: int = 0
    schema: int = msgspec.field(default_factory=_schema)


class Store(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What concerns a store as a whole: its epoch, and the acts on all of its handles at once.

    ``cleared``: handles born at or before this revision count as absent. ``locked``: sessions that locked every
    handle there was at that revision. ``released``: sessions that released all that they held at that revision.
    ``pushed``: the revision of the newest answer that had to make room for younger ones.
    """

    name: str
    epoch: int = 0
    epoch_session: str | None = None
    epoch_born: int = 0
    epoch_since: str | None = None
    cleared: int = 0
    locked: tuple[Lock, ...] = ()
    released: tuple[Lock, ...] = ()
    answered: tuple[Answered, ...] = ()
    pushed: int = 0
    schema: int = msgspec.field(default_factory=_schema)


class Handle(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A named, versioned pointer to one blob.

    ``removing``: its removal has begun. ``gone``: removed; the record stays for a while for the answers it keeps.
    ``freed``: sessions whose lock through `Store.locked` was given back for this handle alone.
    """

    name: str
    version: str
    blob: str
    size: int
    sha256: str
    created: str
    updated: str
    born: int
    changed: int
    labels: dict[str, str] = {}
    locks: tuple[Lock, ...] = ()
    freed: tuple[Lock, ...] = ()
    epoch: int | None = None
    removing: bool = False
    gone: bool = False
    answered: tuple[Answered, ...] = ()
    pushed: int = 0
    schema: int = msgspec.field(default_factory=_schema)


class Upload(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Bytes that a client puts under ``blob`` by itself, for one handle to take.

    ``session`` asked for it; anybody may use it, for ``ttl`` seconds. ``ended`` is the revision at which a handle took
    the bytes, and ``blob`` with them, or the time was up; 0 while it is pending. Then the record stays for a while for
    the answer it keeps.
    """

    id: str
    blob: str
    size: int
    sha256: str
    session: str
    ttl: float
    born: int
    ended: int = 0
    answered: tuple[Answered, ...] = ()
    schema: int = msgspec.field(default_factory=_schema)


class Deployment(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Drawn once, when the journal is first led. The keys of all blobs begin with ``id``."""

    id: str
    schema: int = msgspec.field(default_factory=_schema)

    @property
    def answered(self) -> tuple[Answered, ...]:
        """No caller asks for it."""
        return ()


class Corrupt(msgspec.Struct, frozen=True, gc=False):
    """A record that cannot be read."""

    name: str
    reason: str


Record = Deployment | Session | Store | Handle | Upload | Corrupt
Stored = Deployment | Session | Store | Handle | Upload

DEPLOYMENT_KEY: Final = "deployment"

_KINDS: Final[dict[str, type[Stored]]] = {
    DEPLOYMENT_KEY: Deployment,
    "sessions": Session,
    "stores": Store,
    "handles": Handle,
    "uploads": Upload,
}
_DECODERS: Final[dict[type[Stored], msgspec.json.Decoder[Stored]]] = {
    kind: msgspec.json.Decoder(kind, strict=True) for kind in _KINDS.values()
}
_ENCODER: Final = msgspec.json.Encoder()


def session_key(session: str) -> str:
    """The key of a session's record."""
    return f"sessions/{session}"


def store_key(store: str) -> str:
    """The key of a store's own record."""
    return f"stores/{store}"


def handle_key(store: str, name: str) -> str:
    """The key of a handle's record."""
    return f"stores/{store}/handles/{name}"


def upload_key(store: str, upload: str) -> str:
    """The key of an upload's record."""
    return f"stores/{store}/uploads/{upload}"


def store_of(key: str) -> str | None:
    """The store that a key belongs to, None for a session's."""
    parts = key.split("/", 2)
    return parts[1] if parts[0] == "stores" and len(parts) > 1 else None


def handle_of(key: str) -> tuple[str, str] | None:
    """The store and the name that a handle's key consists of, None for another record's."""
    return _below_store(key, "handles")


def upload_of(key: str) -> tuple[str, str] | None:
    """The store and the id that an upload's key consists of, None for another record's."""
    return _below_store(key, "uploads")


def _below_store(key: str, kind: str) -> tuple[str, str] | None:
    parts = key.split("/")
    return (parts[1], parts[3]) if len(parts) == 4 and parts[0] == "stores" and parts[2] == kind else None


def size_of(answers: tuple[Answered, ...]) -> int:
    """How many bytes these take in a stored record."""
    return len(_ENCODER.encode(answers))


def encode(key: str, record: Stored) -> bytes:
    """The stored form of a record under ``key``, with its checksum."""
    return seal(key, _ENCODER.encode(record))


def decode(key: str, value: bytes) -> Record:
    """The record under ``key``, or a `Corrupt` that says what is wrong with it."""
    parts = key.split("/")
    name = parts[-1]
    kind = _kind_of(parts)
    if kind is None:
        return Corrupt(name, f"no kind of record has the key {key!r}")
    try:
        record = _DECODERS[kind].decode(unseal(key, value))
    except (msgspec.DecodeError, ValueError) as error:
        return Corrupt(name, f"not a readable record: {error}")
    if record.schema != SCHEMA:
        return Corrupt(name, f"schema {record.schema} is not known here (this is schema {SCHEMA})")
    if isinstance(record, Deployment):
        return record
    stored_name = record.id if isinstance(record, Session | Upload) else record.name
    if stored_name != name:
        return Corrupt(name, f"the record is about {stored_name!r}")
    return record


def is_ours(key: str) -> bool:
    """Whether a record of ours may have this key."""
    return _kind_of(key.split("/")) is not None


def _kind_of(parts: list[str]) -> type[Stored] | None:
    """What the keys at the head of this file are for, and nothing for any that only looks like them."""
    match parts:
        case ["stores", _, "handles" | "uploads" as below, _]:
            return _KINDS[below]
        case ["sessions" | "stores" as first, _]:
            return _KINDS[first]
        case [only] if only == DEPLOYMENT_KEY:
            return Deployment
        case _:
            return None

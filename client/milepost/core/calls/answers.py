"""Readers: functions that turn a 2xx answer of the service into the typed record that an operation returns.

A reader ignores members that it does not know, and raises ``TypeError``, ``ValueError`` or ``LookupError`` for an
answer that is no such record. Such an answer did not come from the service, and nothing of it is believed
(`milepost.core.calls.judgement`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from milepost.core.effects import Answer
from milepost.types import (
    Clone,
    CorruptHandle,
    Cut,
    DamagedFile,
    Epoch,
    FileCredential,
    Handle,
    KeptCuts,
    LockedHandles,
    Pin,
    Removal,
    SessionInfo,
    Status,
    StoreSummary,
    Verification,
)
from milepost.wire import Header, unquote_version

T = TypeVar("T")

Document = Mapping[str, Any]
Reader = Callable[[Answer], T]

_TIME = re.compile(r"(.{19})(?:\.(\d+))?(?:Z|z|\+00:00)\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def whatever(answer: Answer) -> Any:
    """Accept any answer as it is."""
    return answer


def nothing(answer: Answer) -> None:
    """Accept a 204, which has nothing to read."""
    _check_status(answer, (204,))


def version(answer: Answer) -> str:
    """Read the version from the ETag of an answer without a body."""
    _check_status(answer, (200,))
    found = unquote_version(answer.headers.get(Header.ETAG.lower(), ""))
    if found is None:
        raise ValueError("the ETag holds no version")
    return found


def document(reader: Callable[[Document], T], *statuses: int) -> Reader[T]:
    """Make a reader that applies ``reader`` to the JSON object of an answer with one of ``statuses`` (default: 200)."""

    def read(answer: Answer) -> T:
        _check_status(answer, statuses or (200,))
        found = json.loads(answer.body)
        if not isinstance(found, dict):
            raise TypeError("not a JSON object")
        return reader(found)

    return read


def handle(document: Document) -> Handle:
    """Read the record of a handle."""
    sha256 = _text(document, "sha256")
    if not _SHA256.match(sha256):
        raise ValueError("sha256 is not a SHA-256 digest")
    return Handle(
        name=_text(document, "name"),
        version=_text(document, "version"),
        size=_whole(document, "size"),
        sha256=sha256,
        created=time(document["created"]),
        updated=time(document["updated"]),
        labels=_labels(document.get("labels", {})),
        locks=_texts(document, "locks"),
        epoch=None if document.get("epoch") is None else _whole(document, "epoch"),
        removing=_flag(document.get("removing", False)),
    )


def handle_named(name: str) -> Callable[[Document], Handle]:
    """Make a reader for the record of the handle of this name; it refuses the record of any other."""

    def read(document: Document) -> Handle:
        found = handle(document)
        if found.name != name:
            raise ValueError("the record of another handle")
        return found

    return read


def page(after: str | None) -> Callable[[Document], tuple[list[Handle], list[CorruptHandle], str | None]]:
    """Make a reader for the page of handles after the token ``after``: handles, damaged handles, and the next page's
    token.

    It refuses a page whose next token is ``after`` again, with which a listing would never end.
    """

    def read(document: Document) -> tuple[list[Handle], list[CorruptHandle], str | None]:
        both = locked(document)
        return both.handles, both.corrupt, _next(document, after)

    return read


def locked(document: Document) -> LockedHandles:
    """Read all handles of a store that the request locked, and the damaged ones."""
    damaged = _list(document, "corrupt") if "corrupt" in document else []
    return LockedHandles(
        handles=[handle(entry) for entry in _list(document, "handles")],
        corrupt=[CorruptHandle(_text(entry, "name"), _text(entry, "reason")) for entry in damaged],
    )


def removal(document: Document) -> Removal:
    """Read how a removal ended."""
    return Removal(_flag(document["removed"]), _texts(document, "locks"))


def cleared(document: Document) -> int:
    """Read how many handles were cleared."""
    return _whole(document, "cleared")


def epoch(document: Document) -> Epoch:
    """Read an epoch; a store that never had one has epoch 0."""
    since = document.get("since")
    return Epoch(
        epoch=_whole(document, "epoch"),
        session=_text_or_none(document, "session"),
        holder=_text_or_none(document, "holder"),
        since=None if since is None else time(since),
    )


def epoch_of(session: str | None) -> Callable[[Document], Epoch]:
    """Make a reader for the epoch that was granted to ``session``; it refuses one of another session."""

    def read(document: Document) -> Epoch:
        found = epoch(document)
        if found.epoch < 1 or found.session != session:
            raise ValueError("no epoch of this session")
        return found

    return read


def kept_cuts(document: Document) -> KeptCuts:
    """Read the cuts and pins of the files of a job."""
    pins = [Pin(_text(pin, "name"), _cut(pin)) for pin in _list(document, "pins")]
    return KeptCuts([_cut(cut) for cut in _list(document, "cuts")], pins)


def revision(document: Document) -> int:
    """Read the revision of the cut that a request was about."""
    return _whole(document, "revision")


def verification(document: Document) -> Verification:
    """Read what was found of the files of a job."""
    return Verification(
        files=_whole(document, "files"),
        bytes=_whole(document, "bytes"),
        intact=_flag(document["intact"]),
        damaged=[DamagedFile(_text(file, "path"), _text(file, "reason")) for file in _list(document, "damaged")],
        damaged_count=_whole(document, "damagedCount"),
        kept=kept_cuts(document),
    )


def clone(document: Document) -> Clone:
    """Read what was copied from another job."""
    return Clone(_whole(document, "files"), _whole(document, "bytes"))


def _cut(document: Document) -> Cut:
    return Cut(
        directory=_text(document, "directory"),
        batch=_whole(document, "batch"),
        revision=_whole(document, "revision"),
        intact=_flag(document["intact"]) if "intact" in document else None,
    )


def file_credential(document: Document) -> FileCredential:
    """Read the credential of a store's files."""
    return FileCredential(
        _whole(document, "epoch"),
        _text(document, "client_id"),
        _text(document, "client_secret"),
        _text(document, "token_path"),
    )


def session(document: Document) -> SessionInfo:
    """Read a session as the service describes it."""
    ttl = _seconds(document, "ttl")
    locks = _list(document, "locks") if "locks" in document else []
    return SessionInfo(
        session=_text(document, "session"),
        ttl=ttl,
        holder=_text_or_none(document, "holder"),
        expires_in=_seconds(document, "expires_in") if "expires_in" in document else ttl,
        locks=tuple(f"{_text(lock, 'store')}/{_text(lock, 'name')}" for lock in locks),
    )


def session_of(id_: str) -> Callable[[Document], SessionInfo]:
    """Make a reader for the session of this id with a lease above 0 seconds; it refuses any other session."""

    def read(document: Document) -> SessionInfo:
        found = session(document)
        if found.session != id_ or found.ttl <= 0:
            raise ValueError("another session")
        return found

    return read


def stores(after: str | None) -> Callable[[Document], tuple[list[StoreSummary], str | None]]:
    """Make a reader for the page of stores after the token ``after``: the stores, and the next page's token.

    It refuses a page whose next token is ``after`` again, with which a listing would never end.
    """

    def read(document: Document) -> tuple[list[StoreSummary], str | None]:
        found = [
            StoreSummary(
                _text(entry, "store"),
                _whole(entry, "handles"),
                _whole(entry, "revision"),
                None if entry.get("epoch") is None else _whole(entry, "epoch"),
            )
            for entry in _list(document, "stores")
        ]
        return found, _next(document, after)

    return read


def status(document: Document) -> Status:
    """Read the status of a replica."""
    return Status(
        replica=_text(document, "replica"),
        role=_text(document, "role"),
        leader=_text_or_none(document, "leader"),
        term=None if document.get("term") is None else _whole(document, "term"),
        lease_remaining=None if document.get("lease_remaining") is None else _seconds(document, "lease_remaining"),
        version=_text(document, "version"),
        pointers=_text(document, "pointers"),
        blobs=_text(document, "blobs"),
    )


def time(text: object) -> datetime:
    """Parse an RFC 3339 time in UTC (Python 3.10 itself reads neither ``Z`` nor any number of digits)."""
    match = _TIME.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("not a time in UTC")
    return datetime.fromisoformat(f"{match[1]}.{(match[2] or '0')[:6]:0<6}+00:00")


def _check_status(answer: Answer, statuses: tuple[int, ...]) -> None:
    if answer.status not in statuses:
        raise ValueError("not the status of a success here")


def _text(document: Document, name: str) -> str:
    value = document[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value


def _text_or_none(document: Document, name: str) -> str | None:
    return None if document.get(name) is None else _text(document, name)


def _whole(document: Document, name: str) -> int:
    value = document[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{name} is not a whole number of 0 or more")
    return value


def _seconds(document: Document, name: str) -> float:
    """Read a number of seconds that is finite and not negative.

    Python's JSON parser accepts NaN and Infinity, with which a lease would never end.
    """
    value = document[name]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise TypeError(f"{name} is not a number of seconds")
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("a flag is neither true nor false")
    return value


def _list(document: Document, name: str) -> list[Any]:
    value = document[name]
    if not isinstance(value, list):
        raise TypeError(f"{name} is not a list")
    return value


def _texts(document: Document, name: str) -> tuple[str, ...]:
    """Read a list of texts; a missing list is empty."""
    found = _list(document, name) if name in document else []
    if not all(isinstance(value, str) for value in found):
        raise TypeError(f"{name} holds an entry that is not a string")
    return tuple(found)


def _labels(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError("labels are not an object of strings")
    return dict(value)


def _next(document: Document, after: str | None) -> str | None:
    token = _text_or_none(document, "next")
    if token is not None and token == after:
        raise ValueError("a listing that repeats the same page")
    return token

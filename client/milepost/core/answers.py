"""Answers become typed records here: a reader makes of a 2xx answer what the operation returns.

A reader passes over members that it does not know, and raises ``TypeError``, ``ValueError`` or ``LookupError`` for what
is no such record: then whoever answered was not the service, and nothing of it is believed (`milepost.core.judgement`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from milepost.core.effects import Answer
from milepost.types import CorruptHandle, Epoch, Handle, LockedHandles, Removal, SessionInfo, Status, StoreSummary
from milepost.wire import Header, unquote_version

T = TypeVar("T")

Document = Mapping[str, Any]
Reader = Callable[[Answer], T]

_TIME = re.compile(r"(.{19})(?:\.(\d+))?(?:Z|z|\+00:00)\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def whatever(answer: Answer) -> Any:
    """Any answer will do."""
    return answer


def nothing(answer: Answer) -> None:
    """204: it is done, and there is no more to say."""
    _check_status(answer, (204,))


def version(answer: Answer) -> str:
    """The version in the ETag of an answer without a body."""
    _check_status(answer, (200,))
    found = unquote_version(answer.headers.get(Header.ETAG.lower(), ""))
    if found is None:
        raise ValueError("no version in its ETag")
    return found


def document(reader: Callable[[Document], T], *statuses: int) -> Reader[T]:
    """What ``reader`` makes of the JSON object in an answer of one of ``statuses`` (200, if none is given)."""

    def read(answer: Answer) -> T:
        _check_status(answer, statuses or (200,))
        found = json.loads(answer.body)
        if not isinstance(found, dict):
            raise TypeError("not a JSON object")
        return reader(found)

    return read


def handle(document: Document) -> Handle:
    """The record of a handle."""
    sha256 = _text(document, "sha256")
    if not _SHA256.match(sha256):
        raise ValueError("sha256 is no digest")
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
    """The record of the handle of this name, and of no other."""

    def read(document: Document) -> Handle:
        found = handle(document)
        if found.name != name:
            raise ValueError("the record of another handle")
        return found

    return read


def page(after: str | None) -> Callable[[Document], tuple[list[Handle], list[CorruptHandle], str | None]]:
    """The page of handles behind the token ``after``, the damaged ones among them, and the token of the next."""

    def read(document: Document) -> tuple[list[Handle], list[CorruptHandle], str | None]:
        both = locked(document)
        return both.handles, both.corrupt, _next(document, after)

    return read


def locked(document: Document) -> LockedHandles:
    """All handles, locked."""
    damaged = _list(document, "corrupt") if "corrupt" in document else []
    return LockedHandles(
        handles=[handle(entry) for entry in _list(document, "handles")],
        corrupt=[CorruptHandle(_text(entry, "name"), _text(entry, "reason")) for entry in damaged],
    )


def removal(document: Document) -> Removal:
    """The end of a removal."""
    return Removal(_flag(document["removed"]), _texts(document, "locks"))


def cleared(document: Document) -> int:
    """How many handles were cleared."""
    return _whole(document, "cleared")


def epoch(document: Document) -> Epoch:
    """An epoch, or the absence of one."""
    since = document.get("since")
    return Epoch(
        epoch=_whole(document, "epoch"),
        session=_text_or_none(document, "session"),
        holder=_text_or_none(document, "holder"),
        since=None if since is None else time(since),
    )


def epoch_of(session: str | None) -> Callable[[Document], Epoch]:
    """The epoch that ``session`` was granted."""

    def read(document: Document) -> Epoch:
        found = epoch(document)
        if found.epoch < 1 or found.session != session:
            raise ValueError("no epoch of this session")
        return found

    return read


def session(document: Document) -> SessionInfo:
    """A session as the service describes it."""
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
    """The session of this id, and no other, with a lease to count on."""

    def read(document: Document) -> SessionInfo:
        found = session(document)
        if found.session != id_ or found.ttl <= 0:
            raise ValueError("another session")
        return found

    return read


def stores(after: str | None) -> Callable[[Document], tuple[list[StoreSummary], str | None]]:
    """The page of stores behind the token ``after``, and the token of the next."""

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
    """The status of a replica."""
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
    """An RFC 3339 time in UTC (Python 3.10 reads neither ``Z`` nor any number of digits by itself)."""
    match = _TIME.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("not a time in UTC")
    return datetime.fromisoformat(f"{match[1]}.{(match[2] or '0')[:6]:0<6}+00:00")


def _check_status(answer: Answer, statuses: tuple[int, ...]) -> None:
    if answer.status not in statuses:
        raise ValueError("not a status for success here")


def _text(document: Document, name: str) -> str:
    value = document[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _text_or_none(document: Document, name: str) -> str | None:
    return None if document.get(name) is None else _text(document, name)


def _whole(document: Document, name: str) -> int:
    value = document[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{name} is no whole number from 0")
    return value


def _seconds(document: Document, name: str) -> float:
    """A span of time. JSON as Python reads it has NaN and Infinity, by which a lease would never end."""
    value = document[name]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise TypeError(f"{name} is no number of seconds")
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


def _list(document: Document, name: str) -> list[Any]:
    value = document[name]
    if not isinstance(value, list):
        raise TypeError(f"{name} is no list")
    return value


def _texts(document: Document, name: str) -> tuple[str, ...]:
    """The texts of a list that may be left out."""
    found = _list(document, name) if name in document else []
    if not all(isinstance(value, str) for value in found):
        raise TypeError(f"{name} holds what is no text")
    return tuple(found)


def _labels(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError("labels are no texts by name")
    return dict(value)


def _next(document: Document, after: str | None) -> str | None:
    token = _text_or_none(document, "next")
    if token is not None and token == after:
        raise ValueError("a listing that does not go on")
    return token

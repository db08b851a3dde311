"""Answers become typed records here. Unknown fields are ignored, missing ones are a fault of whoever answered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from milepost.core.effects import Answer
from milepost.errors import OutcomeUnknown, ServerFault
from milepost.types import CorruptHandle, Epoch, Handle, LockedHandles, Removal, SessionInfo, Status, StoreSummary
from milepost.wire import Code, Header, unquote_version

T = TypeVar("T")

_TIME = re.compile(r"(.{19})(?:\.(\d+))?(?:Z|z|\+00:00)\Z")


def read(answer: Answer, reader: Callable[[Mapping[str, Any]], T], changed: bool) -> T:
    """``reader`` of the JSON object in ``answer``.

    Raises for anything else: `ServerFault`, or `OutcomeUnknown` where it answers a request that ``changed`` something.
    """
    try:
        document = json.loads(answer.body)
        if not isinstance(document, dict):
            raise TypeError("not a JSON object")
        return reader(document)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        detail = f"status {answer.status}, but not an answer of Milepost: {type(error).__name__} {error}"
        if changed:
            raise OutcomeUnknown(Code.OUTCOME_UNKNOWN, detail, retryable=False) from error
        raise ServerFault(Code.INTERNAL, detail) from error


def version(answer: Answer) -> str:
    """The version in the answer's ETag. Raises `ServerFault` where there is none."""
    found = unquote_version(answer.headers.get(Header.ETAG.lower(), ""))
    if found is None:
        raise ServerFault(Code.INTERNAL, f"status {answer.status} without an ETag")
    return found


def handle(document: Mapping[str, Any]) -> Handle:
    """The record of a handle."""
    epoch = document.get("epoch")
    return Handle(
        name=str(document["name"]),
        version=str(document["version"]),
        size=int(document["size"]),
        sha256=str(document["sha256"]),
        created=time(document["created"]),
        updated=time(document["updated"]),
        labels={str(key): str(value) for key, value in document.get("labels", {}).items()},
        locks=tuple(document.get("locks", ())),
        epoch=None if epoch is None else int(epoch),
        removing=bool(document.get("removing", False)),
    )


def page(document: Mapping[str, Any]) -> tuple[list[Handle], list[CorruptHandle], str | None]:
    """One page of handles, the damaged ones among them, and the token of the next."""
    both = locked(document)
    return both.handles, both.corrupt, document.get("next")


def locked(document: Mapping[str, Any]) -> LockedHandles:
    """All handles, locked."""
    return LockedHandles(
        handles=[handle(entry) for entry in document["handles"]],
        corrupt=[CorruptHandle(str(entry["name"]), str(entry["reason"])) for entry in document.get("corrupt", ())],
    )


def removal(document: Mapping[str, Any]) -> Removal:
    """The end of a removal."""
    removed = document["removed"]
    if not isinstance(removed, bool):
        raise TypeError("removed is not true or false")
    return Removal(removed, tuple(document.get("locks", ())))


def epoch(document: Mapping[str, Any]) -> Epoch:
    """An epoch, or the absence of one."""
    since = document.get("since")
    return Epoch(
        epoch=int(document["epoch"]),
        session=document.get("session"),
        holder=document.get("holder"),
        since=None if since is None else time(since),
    )


def session(document: Mapping[str, Any]) -> SessionInfo:
    """A session as the service describes it."""
    return SessionInfo(
        session=str(document["session"]),
        ttl=float(document["ttl"]),
        holder=document.get("holder"),
        expires_in=float(document.get("expires_in", document["ttl"])),
        locks=tuple(f"{lock['store']}/{lock['name']}" for lock in document.get("locks", ())),
    )


def stores(document: Mapping[str, Any]) -> tuple[list[StoreSummary], str | None]:
    """One page of stores, and the token of the next."""
    found = [
        StoreSummary(str(entry["store"]), int(entry["handles"]), int(entry["revision"]), entry.get("epoch"))
        for entry in document["stores"]
    ]
    return found, document.get("next")


def status(document: Mapping[str, Any]) -> Status:
    """The status of a replica."""
    return Status(
        replica=str(document["replica"]),
        role=str(document["role"]),
        leader=document.get("leader"),
        term=document.get("term"),
        lease_remaining=document.get("lease_remaining"),
        version=str(document["version"]),
        pointers=str(document["pointers"]),
        blobs=str(document["blobs"]),
    )


def time(text: str) -> datetime:
    """An RFC 3339 time in UTC (Python 3.10 reads neither ``Z`` nor any number of digits by itself)."""
    match = _TIME.match(text)
    if match is None:
        raise ValueError(f"not a time in UTC: {text!r}")
    return datetime.fromisoformat(f"{match[1]}.{(match[2] or '0')[:6]:0<6}+00:00")

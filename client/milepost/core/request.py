"""Requests, as they are before a replica, an attempt and credentials are chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from milepost.core.answers import Reader, whatever
from milepost.core.body import Body, body_of_bytes
from milepost.errors import InvalidName, InvalidRequest
from milepost.wire import (
    API,
    LABEL_KEY,
    MAX_LABEL_VALUE,
    MAX_LABELS,
    NAME,
    Code,
    Header,
    quote_version,
    unquote_version,
)

T = TypeVar("T")

JSON_MEDIA_TYPE = "application/json"


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request, and what reads its answer: a T, or an error where it is no such answer (`milepost.core.answers`).

    ``wait`` is how long (seconds) the service was asked to hold its answer back, or may need for what it was asked to
    do; ``local`` marks what any replica answers for itself, ``located`` what may be answered with where the bytes lie.
    """

    method: str
    path: str
    reader: Reader[T] = whatever
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    wait: float = 0.0
    local: bool = False
    located: bool = False

    @property
    def changes(self) -> bool:
        """Whether the request may change something: then it carries a key, and its outcome may be unknown."""
        return self.method not in ("GET", "HEAD")


def checked_name(name: str, what: str = "handle") -> str:
    """``name`` itself, which needs no quoting. Raises `InvalidName`: nothing was sent."""
    if not NAME.match(name):
        raise InvalidName(Code.INVALID_NAME, f"not a name for a {what}: {name!r}")
    return name


def path(*segments: str, **query: object) -> str:
    """``/v1/…`` with a query of those arguments that are not None."""
    given = {key: str(value) for key, value in query.items() if value is not None}
    return "/".join((API, *segments)) + ("?" + urlencode(given) if given else "")


def json_body(document: Mapping[str, Any]) -> Body:
    """A JSON document as a body."""
    return body_of_bytes(json.dumps(document, separators=(",", ":")).encode())


def label_headers(labels: Mapping[str, str] | None) -> dict[str, str]:
    """The headers that carry ``labels``. Raises `InvalidRequest` for what a header cannot carry: nothing was sent."""
    labels = labels or {}
    if len(labels) > MAX_LABELS:
        raise InvalidRequest(Code.INVALID_REQUEST, f"{len(labels)} labels, {MAX_LABELS} at most")
    for key, value in labels.items():
        if not LABEL_KEY.match(key):
            raise InvalidRequest(Code.INVALID_REQUEST, f"not a key for a label: {key!r}")
        if len(value) > MAX_LABEL_VALUE or not value.isascii() or not value.isprintable() or value != value.strip():
            raise InvalidRequest(
                Code.INVALID_REQUEST,
                f"the value of label {key!r} is not printable ASCII of at most {MAX_LABEL_VALUE} characters, "
                "without blanks around it",
            )
    return {Header.LABEL_PREFIX + key: value for key, value in labels.items()}


def if_match(version: str) -> dict[str, str]:
    """The condition on ``version``. Raises `InvalidRequest` for what cannot be one: nothing was sent."""
    quoted = quote_version(version)
    if unquote_version(quoted) != version:
        raise InvalidRequest(Code.INVALID_REQUEST, f"not a version: {version!r}")
    return {Header.IF_MATCH: quoted}

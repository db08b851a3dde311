"""A request to the service, without the parts that differ between its attempts: replica, request id and credentials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from milepost.core.body import Body, body_of_bytes
from milepost.core.calls.answers import Reader, whatever
from milepost.errors import InvalidName, InvalidRequest
from milepost.operations.operation import RestOperation
from milepost.wire import (
    NAME,
    NAME_RULE,
    UNSEEN,
    Code,
    Header,
    quote_version,
    unquote_version,
)

T = TypeVar("T")

JSON_MEDIA_TYPE = "application/json"


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request, and the reader that turns its answer into a T (`milepost.core.calls.answers`).

    ``wait`` is the number of seconds for which the service may delay its answer, because it waits for an event or has
    much to do. ``local`` marks a request that any replica answers for itself, such as one for its status. ``located``
    marks a request for bytes, which the service may redirect to a signed URL of the blob store.
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
        """Return whether the request may change something; it then carries an idempotency key, and its outcome may be
        unknown.
        """
        return self.method not in ("GET", "HEAD")


def checked_name(name: str, what: str = "handle") -> str:
    """Return ``name`` if it is a valid name, which needs no quoting in a URL. Raises `InvalidName` otherwise; ``what``
    says in the error what has this name, such as a store.
    """
    if not NAME.match(name):
        raise InvalidName(Code.INVALID_NAME, f"not a valid name for a {what}: {name!r} ({NAME_RULE})")
    return name


def file_segments(name: str) -> str:
    """Return the path of a file in a job's tree, quoted for a URL. Raises `InvalidName` for a path that no file can
    have.
    """
    segments = name.split("/")
    if any(segment in ("", ".", "..") for segment in segments) or UNSEEN.search(name):
        raise InvalidName(Code.INVALID_NAME, f"not a valid path for a file: {name!r}")
    try:
        return quote(name)
    except UnicodeEncodeError as error:
        raise InvalidName(Code.INVALID_NAME, f"not a valid path for a file: {name!r}") from error


def call_of(operation: RestOperation, *parameters: str, **query: object) -> tuple[str, str]:
    """Return the method and the path of a request for ``operation``.

    ``parameters`` are the values of the operation's path parameters, in order and quoted for a URL. The members of
    ``query`` that are not None become the query.
    """
    given = {key: str(value) for key, value in query.items() if value is not None}
    return operation.method, operation.target(*parameters) + ("?" + urlencode(given) if given else "")


def json_body(document: Mapping[str, Any]) -> Body:
    """Make a body that contains a JSON document."""
    return body_of_bytes(json.dumps(document, separators=(",", ":")).encode())


def if_match(version: str) -> dict[str, str]:
    """Return the ``If-Match`` header by which the service refuses a request if the version is not ``version``. Raises
    `InvalidRequest` for an invalid version.
    """
    quoted = quote_version(version)
    if unquote_version(quoted) != version:
        raise InvalidRequest(Code.INVALID_REQUEST, f"not a version: {version!r}")
    return {Header.IF_MATCH: quoted}

"""Recognises the usual calls of handles by their bytes.

Of a usual call, a few header fields differ from call to call. These are read here, by patterns that are narrower than
the parser and the routes. The other fields, which a client sends with each call, are parsed once, and remembered.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from milepost.wire import (
    IDEMPOTENCY_KEY,
    NAME,
    UPLOAD_MEDIA_TYPE,
    parse_digest_header,
    unquote_version,
)
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.intake import Incoming
from milepost_server.http.access.hosts import Hosts
from milepost_server.http.access.tokens import Principal
from milepost_server.http.connection.known_heads import KnownHead, KnownHeads, has_plain_lines
from milepost_server.http.replies import new_request_id
from milepost_server.model.requests.base import Attempt
from milepost_server.replica.submitter import Caller

MOST_HEAD_BYTES: Final = 4096
"""The most bytes of the head of a usual call."""

_END: Final = b"\r\n\r\n"
_NAME: Final = rb"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}"
_LINE: Final = re.compile(
    rb"([A-Z]+) (/v1/stores/(%b)/handles/(%b)(/lock|/state)?)(\?redirect=true)? HTTP/1\.1" % (_NAME, _NAME)
)
_CHANGING: Final = re.compile(
    rb"(?i)\r\n(milepost-session|idempotency-key|milepost-attempt|milepost-epoch|x-request-id|if-match|content-length"
    rb"|content-digest): ([\x21-\x7e]{1,128})(?=\r\n)"
)
"""The fields that differ from call to call."""
_NUMBER: Final = re.compile(r"[0-9]{1,18}\Z")
_METHODS: Final = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE")


class Unusual(Exception):
    """Raised for a call that must be read as every other request is."""


class Call(NamedTuple):
    """A usual call. ``kind`` is its method with what follows the handle's name in its target; ``given`` has the fields
    that differ from call to call, and ``known`` knows the others.
    """

    kind: bytes
    method: str
    path: str
    store: str
    name: str
    given: dict[bytes, str]
    known: KnownHead
    body: bytes
    length: int
    """The number of bytes that the body must have; more than ``body`` has if the body has not come yet."""
    request_id: str

    def version(self) -> str | None:
        """Return the version in If-Match, None without that field. Raises `Unusual`."""
        value = self.given.get(b"if-match")
        version = None if value is None else unquote_version(value)
        if version is None and value is not None:
            raise Unusual
        return version

    def caller(self, owner: Principal | None) -> Caller:
        """Return the caller of a change as the fields describe it; ``owner`` is that of the token. Raises `Unusual`."""
        given = self.given
        session, key, attempt = given.get(b"milepost-session"), given.get(b"idempotency-key"), 1
        if session is None or not NAME.match(session):
            raise Unusual
        if key is not None and not IDEMPOTENCY_KEY.match(key):
            raise Unusual
        if (number := given.get(b"milepost-attempt")) is not None:
            if key is None:
                raise Unusual
            attempt = _number(number)
        epoch = None if (number := given.get(b"milepost-epoch")) is None else _number(number)
        if owner is None:
            return Caller(Attempt(session, key, attempt), epoch)
        bound_to = None if owner.rights.admin else owner.name
        return Caller(Attempt(session, key, attempt, bound_to, owner.name), epoch)

    def state(self) -> Incoming:
        """Return the state in the body. Raises `Unusual` if the body is not a state, or its size is not announced."""
        given = self.given
        if b"content-length" not in given or UPLOAD_MEDIA_TYPE in self.known.content_type.lower():
            raise Unusual
        digest = given.get(b"content-digest")
        sha256 = None if digest is None else parse_digest_header(digest)
        if digest is not None and sha256 is None:
            raise Unusual
        return Incoming(stream_of(self.body), self.length, sha256)


class UsualCalls:
    """Recognises the usual calls. ``hosts`` checks the header Host if there are no tokens; None accepts every name."""

    def __init__(self, hosts: Hosts | None) -> None:
        self._heads = {method: KnownHeads(hosts, method.decode("ascii")) for method in _METHODS}

    def read(self, data: bytes) -> Call:
        """Return the call that ``data`` is, all of it. Raises `Unusual`."""
        line, end = _LINE.match(data), data.find(_END, 0, MOST_HEAD_BYTES)
        if line is None or end < 0:
            raise Unusual
        method, path, store, name, below, query = line.groups(b"")
        heads, fields = self._heads.get(method), data[line.end() : end + len(_END)]
        if heads is None:
            raise Unusual
        given: dict[bytes, str] = {}
        parts = _CHANGING.split(fields)
        if len(parts) > 1:
            if not has_plain_lines(fields):
                raise Unusual
            for place in range(1, len(parts), 3):
                given[parts[place].lower()] = parts[place + 1].decode("ascii")
            fields = b"".join(parts[::3])
        known = heads.get(fields[2:])
        if known is None or known.length != 0 or not known.is_plain or 3 * len(given) + 1 != len(parts):
            raise Unusual
        body, announced = data[end + len(_END) :], given.get(b"content-length", "0")
        length = 0 if announced == "0" else _number(announced)
        if body and len(body) != length:
            raise Unusual
        return Call(
            method + below + query,
            method.decode("ascii"),
            path.decode("ascii"),
            store.decode("ascii"),
            name.decode("ascii"),
            given,
            known,
            body,
            length,
            given.get(b"x-request-id") or new_request_id(),
        )


def _number(text: str) -> int:
    """Return a number of 1 or more. Raises `Unusual`."""
    if not _NUMBER.match(text) or (number := int(text)) < 1:
        raise Unusual
    return number

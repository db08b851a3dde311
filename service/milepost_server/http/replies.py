"""Makes HTTP answers: JSON of the operations' results, in pieces if it is long; bytes, all or one range; and problems.

Each problem is answered as ``application/problem+json`` with ``retryable`` and ``outcome``, never with a stack trace.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from milepost.errors import Problem
from milepost.wire import (
    PROBLEM_MEDIA_TYPE,
    PROBLEM_TYPE_PREFIX,
    PROBLEMS,
    STATE_MEDIA_TYPE,
    Code,
    Header,
    quote_version,
)
from milepost_server.basics.pieces import EncodedList, whole_of
from milepost_server.basics.problems import problem
from milepost_server.http.connection.exchange import exchange_of
from milepost_server.http.headers import one
from milepost_server.http.requests import HttpRequest
from milepost_server.operations.states import Span
from milepost_server.replica.submitter import Reply

log = logging.getLogger("milepost.http")

_SHORT: Final = 64 * 1024
_ONE_RANGE: Final = re.compile(r"bytes\s*=\s*(\d{0,18})-(\d{0,18})\Z")

ELSEWHERE: Final = frozenset({Code.NO_LEADER, Code.SHUTTING_DOWN})
"""The problems after which the client should ask another replica."""

CLOSING: Final = {"Connection": "close"}
"""The header by which the client closes its connection.

Answers that send the client to another replica have it: behind a Service of Kubernetes, or another TCP forwarder,
only a new connection reaches another replica. A client that kept this one would always ask the same replica.
"""


class IncrementalResponse(Response):
    """A response in pieces with a Content-Length, so that the client sees whether it is complete.

    A short response is sent as one piece.
    """

    def __init__(
        self, pieces: Iterable[bytes], status: int, headers: Mapping[str, str], media_type: str | None
    ) -> None:
        self._pieces = list(pieces)
        self._length = sum(map(len, self._pieces))
        if self._length <= _SHORT:
            self._pieces = [b"".join(self._pieces)]
        super().__init__(None, status, {**headers, "Content-Length": str(self._length)}, media_type)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the answer piece by piece. ``send`` waits while the client reads slowly, and other requests are served
        between two pieces.
        """
        note = exchange_of(scope).note_waiting
        waiting = self._length
        note(waiting)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        self._pieces.reverse()
        while self._pieces:
            piece = self._pieces.pop()
            waiting -= len(piece)
            note(waiting)
            await send({"type": "http.response.body", "body": piece, "more_body": bool(self._pieces)})
            if self._pieces:
                await asyncio.sleep(0)


ID, TERM, CACHE = b"x-request-id", Header.TERM.lower().encode(), b"cache-control"
AS_IT_IS: Final = (b"x-content-type-options", b"nosniff")
"""The header on every answer that keeps a browser from showing a state or a file as a web page. Such a page would have
the rights of the page that this server itself has.
"""
NOT_CACHED: Final = (CACHE, b"no-store")
"""The header on every answer that may not be cached: without it, a cache between client and server may keep answers by
its own rules.
"""


def new_request_id() -> str:
    """Return an id for a request whose client gave none."""
    return f"{random.getrandbits(64):016x}"


def common_fields(request_id: str, term: int) -> list[tuple[bytes, bytes]]:
    """Return the headers that every answer has."""
    return [(ID, request_id.encode("latin-1")), AS_IT_IS, NOT_CACHED, (TERM, b"%d" % term)]


def cancelled_problem(method: str, path: str, request_id: str) -> Problem:
    """Log that a request was cancelled, because the server is stopping, and return the problem for it.

    A cancelled read has applied nothing. The outcome of a cancelled change is unknown, since its body was complete:
    requests with incomplete bodies are refused earlier.
    """
    log.warning("%s %s was cancelled: this server is stopping (request %s)", method, path, request_id)
    if method in ("GET", "HEAD"):
        return problem(Code.SHUTTING_DOWN, "this replica is shutting down, and had not answered yet")
    return problem(Code.OUTCOME_UNKNOWN, "this replica is shutting down, and did not wait for the end of the request")


def internal_problem() -> Problem:
    """Return the problem for a request that failed unexpectedly."""
    return problem(Code.INTERNAL, "see the service's log under this request's id")


def about(revision: int | None, term: int) -> dict[str, str]:
    """Return the headers with the revision and term of the journal that an answer reflects."""
    headers = {Header.TERM: str(term)}
    if revision is not None:
        headers[Header.REVISION] = str(revision)
    return headers


def reply_headers(reply: Reply) -> dict[str, str]:
    """Return the headers for the reply of an operation: revision, term, version, and whether it repeats an earlier
    answer.
    """
    headers = about(reply.revision, reply.term)
    if reply.answer.version is not None:
        headers[Header.ETAG] = quote_version(reply.answer.version)
    if reply.answer.replayed:
        headers[Header.REPLAYED] = "true"
    return headers


def json_reply(reply: Reply, status: int = 200) -> Response:
    """Make an HTTP answer with the headers of an operation's reply, and with its body as JSON."""
    return json_response(reply.answer.body, status, reply_headers(reply))


def empty_reply(reply: Reply, status: int = 204) -> Response:
    """Make an HTTP answer with the headers of an operation's reply, and without a body."""
    return Response(status_code=status, headers=reply_headers(reply))


def json_response(body: Mapping[str, Any], status: int, headers: Mapping[str, str]) -> Response:
    """Make a JSON answer. It is sent in pieces if a member of ``body`` is an `EncodedList`, since such a list may be
    long.
    """
    for value in body.values():
        if type(value) is EncodedList:
            return IncrementalResponse(_pieces(body), status, headers, "application/json")
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")


def _pieces(body: Mapping[str, Any]) -> Iterator[bytes]:
    before = b"{"
    for name, value in body.items():
        yield before + msgspec.json.encode(name) + b":"
        yield from value.pieces if isinstance(value, EncodedList) else (msgspec.json.encode(value),)
        before = b","
    yield b"}"


def range_header(request: HttpRequest) -> str | None:
    """Return the value of the header Range; None if it is absent, or if If-Range makes it conditional. A conditional
    range is ignored, so that the answer has all bytes.
    """
    return None if request.fields.get("if-range") else one(request, "Range")


def requested_span(header: str | None, size: int) -> Span | None:
    """Return the range that the header requests of a state of ``size`` bytes; None for all bytes.

    A header that is not one range of bytes is ignored, as the standard allows. A range outside of the state raises
    ``range-not-satisfiable``.
    """
    match = _ONE_RANGE.match(header.strip()) if header else None
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first == "":
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    if start >= end:
        raise problem(Code.RANGE_NOT_SATISFIABLE, f"{header!r} lies outside of the {size} bytes", extras={"size": size})
    return Span(start, end)


def bytes_reply(
    chunks: AsyncIterator[bytes], asked: str | None, size: int, span: Span, headers: Mapping[str, str]
) -> Response:
    """Make the answer with the bytes ``span`` of a state of ``size`` bytes. ``asked`` is the request's header Range:
    the status is 206 if it names a range, else 200.
    """
    partial = asked is not None and requested_span(asked, size) is not None
    sent = {**headers, "Accept-Ranges": "bytes", "Content-Length": str(span.end - span.start)}
    if partial:
        sent["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    status = 206 if partial else 200
    if (whole := whole_of(chunks)) is not None:
        return Response(whole, status, sent, STATE_MEDIA_TYPE)
    return StreamingResponse(chunks, status, sent, STATE_MEDIA_TYPE)


def closing(error: Problem) -> dict[str, str]:
    """Return `CLOSING` if ``error`` tells the client to ask another replica; else no header."""
    return CLOSING if error.code in ELSEWHERE else {}


def _problem_document(error: Problem) -> dict[str, Any]:
    """Return the members of the JSON document (RFC 9457) that describes a problem."""
    return {
        "type": f"{PROBLEM_TYPE_PREFIX}{error.code.value}",
        "title": PROBLEMS[error.code].title,
        "status": error.status,
        "detail": error.detail,
        "retryable": error.retryable,
        "outcome": error.outcome.value,
        **error.extras,
    }


def problem_response(error: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return the HTTP answer for a problem. ``headers`` are added to it."""
    sent = {**(headers or {}), **closing(error)}
    if "size" in error.extras:
        sent["Content-Range"] = f"bytes */{error.extras['size']}"
    if error.retry_after is not None:
        sent[Header.RETRY_AFTER] = str(math.ceil(error.retry_after))
    if error.code is Code.UNAUTHENTICATED:
        sent["WWW-Authenticate"] = "Bearer"
    body = msgspec.json.encode(_problem_document(error))
    return Response(body, error.status, sent, media_type=PROBLEM_MEDIA_TYPE)

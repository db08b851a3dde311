"""Make HTTP answers of what the operations return: JSON, with the headers that each answer carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from milepost.wire import Header, quote_version
from milepost_server.http.connection.incremental_response import IncrementalResponse
from milepost_server.operations.encoded_lists import EncodedList
from milepost_server.replica.submitter import Reply


def about(revision: int | None, term: int) -> dict[str, str]:
    """Return the headers that say which revision and term an answer reflects."""
    headers = {Header.TERM: str(term)}
    if revision is not None:
        headers[Header.REVISION] = str(revision)
    return headers


def reply_headers(reply: Reply) -> dict[str, str]:
    """Return the headers of a reply."""
    headers = about(reply.revision, reply.term)
    if reply.answer.version is not None:
        headers[Header.ETAG] = quote_version(reply.answer.version)
    if reply.answer.replayed:
        headers[Header.REPLAYED] = "true"
    return headers


def json_reply(reply: Reply, status: int = 200) -> Response:
    """Make an answer of a reply, with its body as JSON."""
    return json_response(reply.answer.body, status, reply_headers(reply))


def empty_reply(reply: Reply, status: int = 204) -> Response:
    """Make an answer of a reply, without a body."""
    return Response(status_code=status, headers=reply_headers(reply))


def json_response(body: Mapping[str, Any], status: int, headers: Mapping[str, str]) -> Response:
    """Make a JSON answer. It is sent in pieces if a member of the body consists of pieces."""
    if any(isinstance(value, EncodedList) for value in body.values()):
        return IncrementalResponse(_pieces(body), status, headers, "application/json")
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")


def _pieces(body: Mapping[str, Any]) -> Iterator[bytes]:
    before = b"{"
    for name, value in body.items():
        yield before + msgspec.json.encode(name) + b":"
        yield from value.pieces if isinstance(value, EncodedList) else (msgspec.json.encode(value),)
        before = b","
    yield b"}"

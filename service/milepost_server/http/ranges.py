"""Reads the header Range, one range of bytes (RFC 9110, section 14), and answers it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping

from starlette.responses import Response, StreamingResponse

from milepost.wire import STATE_MEDIA_TYPE, Code
from milepost_server.basics.problems import problem
from milepost_server.http.headers import one
from milepost_server.http.requests import HttpRequest
from milepost_server.operations.states import Span

_ONE = re.compile(r"bytes\s*=\s*(\d{0,18})-(\d{0,18})\Z")


def asked_for(request: HttpRequest) -> str | None:
    """Return the header Range, if it applies: a range with a condition is ignored, so the request asks for all
    bytes.
    """
    return None if request.fields.get("if-range") else one(request, "Range")


def span_of(header: str | None, size: int) -> Span | None:
    """Return the range that the header requests of a state of ``size`` bytes; None for all bytes.

    A header that is not one range of bytes is ignored, as the standard allows. A range outside of the state raises
    ``range-not-satisfiable``.
    """
    match = _ONE.match(header.strip()) if header else None
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
    """Make the answer with these bytes, of ``size`` in all: 206 if the header ``asked`` for a range, else 200."""
    partial = span_of(asked, size) is not None
    sent = {**headers, "Accept-Ranges": "bytes", "Content-Length": str(span.end - span.start)}
    if partial:
        sent["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    return StreamingResponse(chunks, 206 if partial else 200, sent, STATE_MEDIA_TYPE)

"""The routes of ``/v1/stores/{store}/handles/{name}`` that carry the bytes of states."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import ADD_AND_LOCK, READ_STATE, REPLACE
from milepost.wire import (
    STATE_MEDIA_TYPE,
    UPLOAD_MEDIA_TYPE,
    Header,
    digest_header,
    quote_version,
)
from milepost_server.http import ranges
from milepost_server.http.bodies import state_or_reference
from milepost_server.http.headers import accepts, caller, checked_name, if_match, labels, required_if_match
from milepost_server.http.openapi.documents import (
    ANNOUNCEMENT,
    ANNOUNCEMENT_EXAMPLE,
    HANDLE_EXAMPLE,
    json_schema,
)
from milepost_server.http.openapi.operations import answers
from milepost_server.http.queries import flag, only_known
from milepost_server.http.replies import about, json_reply
from milepost_server.http.requests import HttpRequest
from milepost_server.model.records import Handle
from milepost_server.operations.states import Delivery, Location, Span

router = APIRouter(tags=["states"])

_BODY = {
    "description": "The state's bytes, or the reference to an upload.",
    "required": True,
    "content": {
        STATE_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
        UPLOAD_MEDIA_TYPE: {
            "schema": json_schema({"upload": {"type": "string"}, **ANNOUNCEMENT}, ["upload", *ANNOUNCEMENT]),
            "example": {"upload": "9f86d081884c7d659a2feaa0c55ad015", **ANNOUNCEMENT_EXAMPLE},
        },
    },
}


@answers(
    router, ADD_AND_LOCK, {201: ("The record of the new handle, locked for the session.", HANDLE_EXAMPLE)}, body=_BODY
)
async def add(request: HttpRequest, store: str, name: str) -> Response:
    """Store the bytes, or use those of an upload, then add the handle that points to them.

    `Milepost-Labels` has at most 32 labels: keys `a-z 0-9 . _ -`, values up to 256 characters of printable ASCII. A
    header `Milepost-Label-<key>: value` for each label is accepted as well; proxies drop those with `_` and `.`.
    """
    names = checked_name(store, "store"), checked_name(name)
    acting, labelled = caller(request), labels(request) or {}
    state = await state_or_reference(request)
    return json_reply(await request.operations.states.add(acting, *names, state, labelled), 201)


@answers(router, REPLACE, {200: ("The record after the replacement.", HANDLE_EXAMPLE)}, body=_BODY)
async def replace(request: HttpRequest, store: str, name: str) -> Response:
    """Store the bytes, or use those of an upload, then point the handle to them if it is at the version of If-Match.

    Labels, as for adding, replace those of the handle; without their headers, the handle keeps its labels.
    """
    names = checked_name(store, "store"), checked_name(name)
    acting, version, labelled = caller(request), required_if_match(request), labels(request)
    state = await state_or_reference(request)
    return json_reply(await request.operations.states.replace(acting, *names, version, state, labelled))


@answers(
    router,
    READ_STATE,
    {200: ("The bytes.", b""), 206: ("A range of them.", b"")},
    elsewhere=(", or to a signed URL if asked for", [Header.ETAG, Header.REPR_DIGEST, Header.REVISION]),
)
async def read(request: HttpRequest, store: str, name: str) -> Response:
    """Return the bytes of a state, all or a range; damaged bytes are never delivered completely.

    With `redirect=true` the answer is 307 to a signed URL if the blob store can sign, else the bytes.
    """
    names = checked_name(store, "store"), checked_name(name)
    accepts(request, STATE_MEDIA_TYPE)
    only_known(request, READ_STATE)
    asked = ranges.asked_for(request)
    reader, version = request.operations.reader, if_match(request)

    def span_of(handle: Handle) -> Span:
        return ranges.span_of(asked, handle.size) or Span(0, handle.size)

    if flag(request, "redirect") and (location := await reader.locate(*names, version, span_of)) is not None:
        headers = {**_headers(location), Header.LOCATION: location.url}
        return Response(status_code=307, headers=headers)
    delivery = await reader.read(*names, version, span_of)
    return ranges.bytes_reply(delivery.chunks, asked, delivery.handle.size, delivery.span, _headers(delivery))


def _headers(found: Delivery | Location) -> dict[str, str]:
    return {
        **about(found.revision, found.term),
        Header.ETAG: quote_version(found.handle.version),
        Header.REPR_DIGEST: digest_header(found.handle.sha256),
    }

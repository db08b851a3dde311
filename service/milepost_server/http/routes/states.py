"""The routes that carry the bytes of states, and the announcement of bytes that a client puts directly into the blob
store.
"""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import ADD_AND_LOCK, ANNOUNCE_UPLOAD, READ_STATE, REPLACE
from milepost.wire import (
    STATE_MEDIA_TYPE,
    UPLOAD_MEDIA_TYPE,
    Header,
    digest_header,
    quote_version,
)
from milepost_server.http.bodies import Digest, Size, json_of, state_or_reference
from milepost_server.http.headers import accepts, caller, checked_name, if_match, labels, required_if_match, stated_act
from milepost_server.http.openapi.documents import (
    ANNOUNCEMENT,
    ANNOUNCEMENT_EXAMPLE,
    HANDLE_EXAMPLE,
    answers,
    json_body,
    json_schema,
)
from milepost_server.http.queries import flag, only_known
from milepost_server.http.replies import (
    about,
    bytes_reply,
    json_reply,
    json_response,
    range_header,
    reply_headers,
    requested_span,
)
from milepost_server.http.requests import HttpRequest
from milepost_server.model.records import Handle
from milepost_server.operations.states import Delivery, Location, Span

router = APIRouter(tags=["states"])
uploads = APIRouter(tags=["uploads"])

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
_UPLOAD_EXAMPLE = {
    "upload": "9f86d081884c7d659a2feaa0c55ad015",
    "method": "PUT",
    "url": "https://bucket.s3.example/flights/000000000007/5d41402abc4b2a76b9719d911017c592?X-Amz-Signature=...",
    "headers": {"If-None-Match": "*", "Content-Length": "5"},
    "expires_in": 900.0,
}


class Announcement(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that announces an upload: size and digest of its bytes."""

    size: Size
    sha256: Digest


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
    `Milepost-Act` says what the change does to the job; the same commit enters it into the history of the job.
    """
    names = checked_name(store, "store"), checked_name(name)
    acting, version, labelled = caller(request), required_if_match(request), labels(request)
    act = stated_act(request)
    state = await state_or_reference(request)
    return json_reply(await request.operations.states.replace(acting, *names, version, state, labelled, act))


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
    asked = range_header(request)
    reader, version = request.operations.reader, if_match(request)

    def span_of(handle: Handle) -> Span:
        return requested_span(asked, handle.size) or Span(0, handle.size)

    if flag(request, "redirect") and (location := await reader.locate(*names, version, span_of)) is not None:
        headers = {**_headers(location), Header.LOCATION: location.url}
        return Response(status_code=307, headers=headers)
    delivery = await reader.read(*names, version, span_of)
    return bytes_reply(delivery.chunks, asked, delivery.handle.size, delivery.span, _headers(delivery))


@answers(
    uploads,
    ANNOUNCE_UPLOAD,
    {201: ("Where to put the bytes, and the headers to put them with.", _UPLOAD_EXAMPLE)},
    body=json_body(ANNOUNCEMENT_EXAMPLE, ANNOUNCEMENT, list(ANNOUNCEMENT)),
)
async def announce(request: HttpRequest, store: str) -> Response:
    """Announce bytes, and return a signed request with which the client puts them directly into the blob store.

    Send exactly that request, with the bytes, before `expires_in` seconds are over. Then add or replace a handle with
    the upload's reference; one upload serves one handle at most. A retry with the same key gets a new URL for the same
    upload, or `upload-unknown` if the upload was used meanwhile.
    """
    checked_name(store, "store")
    acting = caller(request)
    body = await json_of(request, Announcement)
    reply = await request.operations.uploads.create(acting, store, body.size, body.sha256)
    return json_response(reply.answer.body, 201, reply_headers(reply))


def _headers(found: Delivery | Location) -> dict[str, str]:
    return {
        **about(found.revision, found.term),
        Header.ETAG: quote_version(found.handle.version),
        Header.REPR_DIGEST: digest_header(found.handle.sha256),
    }

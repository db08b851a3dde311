"""The routes of ``/v1/stores/{store}/uploads``: bytes that a client puts directly into the blob store."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import ANNOUNCE_UPLOAD
from milepost_server.http.bodies import Digest, Size, json_of
from milepost_server.http.headers import caller, checked_name
from milepost_server.http.openapi.documents import (
    ANNOUNCEMENT,
    ANNOUNCEMENT_EXAMPLE,
    json_body,
)
from milepost_server.http.openapi.operations import answers
from milepost_server.http.replies import json_response, reply_headers
from milepost_server.http.requests import HttpRequest

router = APIRouter(tags=["uploads"])

_EXAMPLE = {
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
    router,
    ANNOUNCE_UPLOAD,
    {201: ("Where to put the bytes, and the headers to put them with.", _EXAMPLE)},
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

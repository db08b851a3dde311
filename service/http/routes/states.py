"""``/v1/stores/{store}/handles/{name}``: what carries bytes."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from milepost.wire import (
    STATE_MEDIA_TYPE,
    UPLOAD_MEDIA_TYPE,
    Code,
    Header,
    digest_header,
    quote_version,
)
from service.http import ranges
from service.http.bodies import state_of
from service.http.context import replica_of
from service.http.documents import ACTING, HANDLE_EXAMPLE, RECEIVING, WRITING, described
from service.http.headers import accepts, caller, checked_name, if_match, labels, one, required_if_match
from service.http.replies import about, json_reply
from service.http.routes.handles import only_known
from service.operations import states
from service.problems import problem
from service.rules.records import Handle

router = APIRouter(prefix="/v1/stores/{store}/handles/{name}", tags=["states"])

_BODY = {
    "description": "The state's bytes, or the reference to an upload.",
    "required": True,
    "content": {
        STATE_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
        UPLOAD_MEDIA_TYPE: {"example": {"upload": "u-1", "size": 5, "sha256": HANDLE_EXAMPLE["sha256"]}},
    },
}
_SENT = [*WRITING, Header.CONTENT_DIGEST, Header.LABEL_PREFIX + "{key}"]


@router.post(
    "",
    summary="addAndLock",
    **described(
        success={201: ("The record of the new handle, locked for the session.", HANDLE_EXAMPLE)},
        codes=[Code.ALREADY_EXISTS, Code.FENCED, *RECEIVING, *ACTING],
        headers=_SENT,
        answers=[Header.ETAG, Header.REPLAYED],
        body=_BODY,
    ),
)
async def add(request: Request, store: str, name: str) -> Response:
    """Store the bytes, then add the handle that points to them."""
    names = checked_name(store, "store"), checked_name(name)
    _no_upload(request)
    reply = await states.add(replica_of(request), caller(request), *names, state_of(request), labels(request) or {})
    return json_reply(reply, 201)


@router.put(
    "",
    summary="replace",
    **described(
        success={200: ("The record after the replacement.", HANDLE_EXAMPLE)},
        codes=[
            Code.NOT_EXIST,
            Code.VERSION_MISMATCH,
            Code.PRECONDITION_REQUIRED,
            Code.NOT_LOCKED,
            Code.FENCED,
            *RECEIVING,
            *ACTING,
        ],
        headers=[*_SENT, Header.IF_MATCH],
        answers=[Header.ETAG, Header.REPLAYED],
        body=_BODY,
    ),
)
async def replace(request: Request, store: str, name: str) -> Response:
    """Store the bytes, then move the handle to them if it is still at the version of If-Match."""
    names = checked_name(store, "store"), checked_name(name)
    _no_upload(request)
    reply = await states.replace(
        replica_of(request),
        caller(request),
        *names,
        required_if_match(request),
        state_of(request),
        labels(request),
    )
    return json_reply(reply)


@router.get(
    "/state",
    summary="The state's bytes",
    **described(
        success={200: ("The bytes.", b""), 206: ("A range of them.", b"")},
        codes=[
            Code.NOT_EXIST,
            Code.VERSION_MISMATCH,
            Code.RANGE_NOT_SATISFIABLE,
            Code.BLOB_MISSING,
            Code.CORRUPT,
            Code.INVALID_REQUEST,
            Code.NOT_ACCEPTABLE,
            Code.STORAGE_UNAVAILABLE,
        ],
        headers=[Header.IF_MATCH, "Range"],
        answers=[Header.ETAG, Header.REPR_DIGEST, "Accept-Ranges"],
        query={"redirect": "`true`: 307 to a signed URL where the blobs can sign."},
    ),
)
async def read(request: Request, store: str, name: str) -> Response:
    """The bytes, whole or a range; damaged ones are never delivered whole.

    With `redirect=true` a blob store that can sign answers 307 to a signed URL; others answer the bytes.
    """
    names = checked_name(store, "store"), checked_name(name)
    accepts(request, STATE_MEDIA_TYPE)
    only_known(request, {"redirect"})
    asked = None if request.headers.get("if-range") else one(request, "Range")

    def span_of(handle: Handle) -> states.Span:
        return ranges.span_of(asked, handle.size) or states.Span(0, handle.size)

    delivery = await states.read_state(replica_of(request), *names, if_match(request), span_of)
    handle, span = delivery.handle, delivery.span
    partial = ranges.span_of(asked, handle.size) is not None
    headers = {
        **about(delivery.revision, delivery.term),
        Header.ETAG: quote_version(handle.version),
        Header.REPR_DIGEST: digest_header(handle.sha256),
        "Accept-Ranges": "bytes",
        "Content-Length": str(span.end - span.start),
    }
    if partial:
        headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{handle.size}"
    return StreamingResponse(delivery.chunks, 206 if partial else 200, headers, STATE_MEDIA_TYPE)


def _no_upload(request: Request) -> None:
    """References to uploads need blobs that can sign; none of the present ones can."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == UPLOAD_MEDIA_TYPE:
        raise problem(Code.NOT_SUPPORTED, "the blob store of this deployment cannot sign uploads")

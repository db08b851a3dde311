"""The routes of ``/v1/sessions``."""

from __future__ import annotations

import hashlib
import math
import secrets
from functools import partial

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.wire import MAX_TTL_SECONDS, MIN_TTL_SECONDS, Code, Header
from milepost_server.basics.problems import problem
from milepost_server.http.access.needs import Need
from milepost_server.http.access.permission import may, may_read
from milepost_server.http.bodies import json_of
from milepost_server.http.headers import accepts, caller, checked_name, one
from milepost_server.http.openapi.documents import (
    ACTING,
    CORRUPT_EXAMPLE,
    FIELDS,
    PAGED,
    json_body,
    openapi_operation,
    seconds,
)
from milepost_server.http.queries import page_of, to_token
from milepost_server.http.replies import about, empty_reply, json_reply, json_response
from milepost_server.http.requests import HttpRequest

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

_KEYS = (Header.IDEMPOTENCY_KEY, Header.ATTEMPT)
_EXAMPLE = {"session": "flights-driver-1", "ttl": 15.0, "holder": "flights-driver"}
_CODES = [code for code in ACTING if code is not Code.SESSION_REQUIRED]
_OPENING = [code for code in _CODES if code is not Code.SESSION_UNKNOWN]
_LIVING = [Code.SESSION_UNKNOWN, Code.SESSION_EXPIRED, Code.INVALID_NAME, Code.CORRUPT]
MOST_HOLDER_CHARACTERS = 200


class NewSession(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a request to open a session."""

    ttl: float
    holder: str = ""
    session: str | None = None


@router.post(
    "",
    summary="Open or renew a session",
    **openapi_operation(
        success={201: ("Created.", _EXAMPLE), 200: ("It lives already and is renewed.", _EXAMPLE)},
        codes=[Code.INVALID_NAME, Code.UNSUPPORTED_MEDIA_TYPE, Code.NOT_ACCEPTABLE, *_OPENING],
        headers=_KEYS,
        answers=[Header.REPLAYED],
        body=json_body(
            _EXAMPLE,
            {
                "ttl": seconds(MIN_TTL_SECONDS, MAX_TTL_SECONDS),
                "holder": {"type": "string", "maxLength": MOST_HOLDER_CHARACTERS},
                "session": {"type": "string"},
            },
            ["ttl"],
        ),
        store=False,
    ),
)
async def open_session(request: HttpRequest) -> Response:
    """Open a session: a lease of `ttl` seconds, which keepalives renew. It is not a credential.

    Where the deployment has tokens, it belongs to the client that opens it: nobody else but an administrator acts in
    it.
    """
    accepts(request, "application/json")
    body = await json_of(request, NewSession)
    if not math.isfinite(body.ttl) or not MIN_TTL_SECONDS <= body.ttl <= MAX_TTL_SECONDS:
        raise problem(Code.INVALID_REQUEST, f"ttl takes {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS} seconds")
    if len(body.holder) > MOST_HOLDER_CHARACTERS or not body.holder.isprintable():
        raise problem(Code.INVALID_REQUEST, f"holder takes at most {MOST_HOLDER_CHARACTERS} printable characters")
    session = _id_by(one(request, Header.IDEMPOTENCY_KEY)) if body.session is None else body.session
    acting = caller(request, session)
    reply = await request.operations.sessions.open(acting, body.ttl, body.holder, request.owner)
    return json_reply(reply, 201 if reply.answer.created else 200)


def _id_by(key: str | None) -> str:
    """Return an id for a session if the client names none; a retry with the same key must get the same id."""
    return secrets.token_hex(12) if key is None else hashlib.blake2b(key.encode(), digest_size=12).hexdigest()


@router.get(
    "",
    summary="The sessions that live",
    **openapi_operation(
        success={
            200: (
                "A page, by id.",
                {
                    "sessions": [
                        {
                            **_EXAMPLE,
                            "expires_in": 12.5,
                            "locks": 1,
                            "locked_stores": 0,
                            "epochs": [{"store": "flights", "epoch": 3}],
                            "more_epochs": False,
                        }
                    ],
                    "corrupt": [CORRUPT_EXAMPLE],
                    "next": "ZmxpZ2h0cy1kcml2ZXItMQ",
                },
            )
        },
        codes=[Code.INVALID_REQUEST, Code.NOT_ACCEPTABLE],
        query=PAGED,
        store=False,
    ),
)
async def list_sessions(request: HttpRequest) -> Response:
    """Return a page of sessions, with what each holds; `locks` counts handles that a session locked one by one."""
    accepts(request, "application/json")
    page = await request.operations.sessions.list_page(*page_of(request))
    body = {"sessions": page.sessions, "corrupt": page.corrupt, "next": to_token(page.next)}
    return json_response(body, 200, about(None, page.term))


@router.post(
    "/{session}/keepalive",
    summary="Renew a lease",
    **openapi_operation(
        success={200: ("Renewed.", {"session": "flights-driver-1", "ttl": 15.0})},
        codes=[*_LIVING, *FIELDS, Code.STORAGE_UNAVAILABLE],
        store=False,
    ),
)
async def keepalive(request: HttpRequest, session: str) -> Response:
    """Renew the lease of a session; it counts from the moment when this request came in."""
    name = checked_name(session, "session id")
    return json_reply(await request.operations.sessions.keepalive(name, client=request.bound_to))


@router.get(
    "/{session}",
    summary="A session and its locks",
    **openapi_operation(
        success={
            200: (
                "The session.",
                {**_EXAMPLE, "expires_in": 12.5, "locks": [{"store": "flights", "name": "latest"}]},
            )
        },
        codes=[*_LIVING, Code.NOT_ACCEPTABLE],
        store=False,
    ),
)
async def get(request: HttpRequest, session: str) -> Response:
    """Return the seconds that the session has left, and the locks that it holds in stores that the client may read.

    Another client's session is shown only to who may read every store.
    """
    accepts(request, "application/json")
    name = checked_name(session, "session id")
    client = None if may(request, Need.READ_ALL) else request.bound_to
    return json_reply(await request.operations.sessions.get(name, client, partial(may_read, request)))


@router.delete(
    "/{session}",
    summary="End a session",
    **openapi_operation(
        success={204: ("Ended: its locks are gone, its epochs are free.", None)},
        codes=[Code.INVALID_NAME, *_CODES],
        headers=_KEYS,
        answers=[Header.REPLAYED],
        store=False,
    ),
)
async def end(request: HttpRequest, session: str) -> Response:
    """End the session, as its client wishes. Handles stay."""
    acting = caller(request, session)
    if request.owner and request.operations.sessions.owner(acting.session) not in ("", request.owner):
        request.audit_name = "end-session"
    return empty_reply(await request.operations.sessions.end(acting))

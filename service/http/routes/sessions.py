"""The routes of ``/v1/sessions``."""

from __future__ import annotations

import hashlib
import math
import secrets

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.wire import MAX_TTL_SECONDS, MIN_TTL_SECONDS, Code, Header
from service.basics.problems import problem
from service.http.bodies import json_of
from service.http.headers import accepts, caller, checked_name, one
from service.http.openapi.documents import ACTING, FIELDS, json_body, openapi_operation, seconds
from service.http.replies import empty_reply, json_reply
from service.http.requests import HttpRequest

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
    """Open a session: a lease of `ttl` seconds, which keepalives renew. It is not a credential."""
    accepts(request, "application/json")
    body = await json_of(request, NewSession)
    if not math.isfinite(body.ttl) or not MIN_TTL_SECONDS <= body.ttl <= MAX_TTL_SECONDS:
        raise problem(Code.INVALID_REQUEST, f"ttl takes {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS} seconds")
    if len(body.holder) > MOST_HOLDER_CHARACTERS or not body.holder.isprintable():
        raise problem(Code.INVALID_REQUEST, f"holder takes at most {MOST_HOLDER_CHARACTERS} printable characters")
    session = _id_by(one(request, Header.IDEMPOTENCY_KEY)) if body.session is None else body.session
    acting = caller(request, session)
    reply = await request.operations.sessions.open(acting, body.ttl, body.holder)
    return json_reply(reply, 201 if reply.answer.created else 200)


def _id_by(key: str | None) -> str:
    """Return an id for a session if the client names none; a retry with the same key must get the same id."""
    return secrets.token_hex(12) if key is None else hashlib.blake2b(key.encode(), digest_size=12).hexdigest()


@router.post(
    "/{session}/keepalive",
    summary="Renew a lease",
    **openapi_operation(
        success={200: ("Renewed.", {"session": "flights-driver-1", "ttl": 15.0})},
        codes=[*_LIVING, *FIELDS, Code.STORAGE_UNAVAILABLE, Code.FORBIDDEN],
        store=False,
    ),
)
async def keepalive(request: HttpRequest, session: str) -> Response:
    """Renew the lease of a session; it counts from the moment when this request came in."""
    return json_reply(await request.operations.sessions.keepalive(checked_name(session, "session id")))


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
    """Return the seconds that the session has left, and the locks that it holds."""
    accepts(request, "application/json")
    return json_reply(await request.operations.sessions.get(checked_name(session, "session id")))


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
    return empty_reply(await request.operations.sessions.end(caller(request, session)))

"""The routes of ``/v1/sessions``."""

from __future__ import annotations

import hashlib
import math
import secrets
from functools import partial

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import END_SESSION, GET_SESSION, KEEP_SESSION_ALIVE, LIST_SESSIONS, OPEN_SESSION
from milepost.operations.operation import Right
from milepost.wire import MAX_TTL_SECONDS, MIN_TTL_SECONDS, Code, Header
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import may, may_read
from milepost_server.http.bodies import json_of
from milepost_server.http.headers import accepts, caller, checked_name, one
from milepost_server.http.openapi.documents import (
    CORRUPT_EXAMPLE,
    PROCESS_EXAMPLE,
    answers,
    json_body,
    json_schema,
    seconds,
)
from milepost_server.http.queries import page_of, to_token
from milepost_server.http.replies import about, empty_reply, json_reply, json_response
from milepost_server.http.requests import HttpRequest
from milepost_server.model.processes import Process
from milepost_server.model.requests.sessions import EndSession

router = APIRouter(tags=["sessions"])

_EXAMPLE = {"session": "flights-driver-1", "ttl": 15.0, "holder": "flights-driver"}
MOST_HOLDER_CHARACTERS = 200
_MOST_CHARACTERS = {"host": 255, "application": 200, "ui": 500}
_MOST_PID = 2**31 - 1


class NewProcess(msgspec.Struct, forbid_unknown_fields=True):
    """What the body of a request to open a session says of the process that holds the session."""

    host: str = ""
    pid: int = 0
    application: str = ""
    ui: str = ""


class NewSession(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a request to open a session."""

    ttl: float
    holder: str = ""
    session: str | None = None
    process: NewProcess | None = None


@answers(
    router,
    OPEN_SESSION,
    {201: ("Created.", _EXAMPLE), 200: ("It lives already and is renewed.", _EXAMPLE)},
    body=json_body(
        {**_EXAMPLE, "process": PROCESS_EXAMPLE},
        {
            "ttl": seconds(MIN_TTL_SECONDS, MAX_TTL_SECONDS),
            "holder": {"type": "string", "maxLength": MOST_HOLDER_CHARACTERS},
            "session": {"type": "string"},
            "process": json_schema(
                {
                    **{name: {"type": "string", "maxLength": most} for name, most in _MOST_CHARACTERS.items()},
                    "pid": {"type": "integer", "format": "int64", "minimum": 0, "maximum": _MOST_PID},
                },
                [],
            ),
        },
        ["ttl"],
    ),
)
async def open_session(request: HttpRequest) -> Response:
    """Open a session: a lease of `ttl` seconds, which keepalives renew. It is not a credential.

    If the service uses tokens, the session belongs to the client that opens it: no other client may use it, except an
    administrator. `process` describes the process that holds the session, for people to read.
    """
    accepts(request, "application/json")
    body = await json_of(request, NewSession)
    if not math.isfinite(body.ttl) or not MIN_TTL_SECONDS <= body.ttl <= MAX_TTL_SECONDS:
        raise problem(Code.INVALID_REQUEST, f"ttl takes {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS} seconds")
    if len(body.holder) > MOST_HOLDER_CHARACTERS or not body.holder.isprintable():
        raise problem(Code.INVALID_REQUEST, f"holder takes at most {MOST_HOLDER_CHARACTERS} printable characters")
    session = _id_by(one(request, Header.IDEMPOTENCY_KEY)) if body.session is None else body.session
    acting = caller(request, session)
    process = None if body.process is None else checked_process(body.process)
    reply = await request.operations.sessions.open(acting, body.ttl, body.holder, request.owner, process)
    return json_reply(reply, 201 if reply.answer.created else 200)


def checked_process(process: NewProcess) -> Process:
    """Return the description of a process. Raises an ``invalid-request`` problem if a member is not allowed."""
    for name, most in _MOST_CHARACTERS.items():
        value = getattr(process, name)
        if len(value) > most or not value.isprintable():
            raise problem(Code.INVALID_REQUEST, f"{name} of process takes at most {most} printable characters")
    if not 0 <= process.pid <= _MOST_PID:
        raise problem(Code.INVALID_REQUEST, f"pid of process takes a whole number from 0 to {_MOST_PID}")
    if process.ui and not process.ui.startswith(("http://", "https://")):
        raise problem(Code.INVALID_REQUEST, "ui of process takes an address that begins with http:// or https://")
    return Process(process.host, process.pid, process.application, process.ui)


def _id_by(key: str | None) -> str:
    """Return a session id for a client that names none. It is derived from the idempotency key, so that a retry gets
    the same id.
    """
    return secrets.token_hex(12) if key is None else hashlib.blake2b(key.encode(), digest_size=12).hexdigest()


@answers(
    router,
    LIST_SESSIONS,
    {
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
)
async def list_sessions(request: HttpRequest) -> Response:
    """Return a page of sessions, with the locks and epochs of each; `locks` counts handles that a session locked one by
    one.
    """
    accepts(request, "application/json")
    page = await request.operations.sessions.list_page(*page_of(request, LIST_SESSIONS))
    body = {"sessions": page.sessions, "corrupt": page.corrupt, "next": to_token(page.next)}
    return json_response(body, 200, about(None, page.term))


@answers(router, KEEP_SESSION_ALIVE, {200: ("Renewed.", {"session": "flights-driver-1", "ttl": 15.0})})
async def keepalive(request: HttpRequest, session: str) -> Response:
    """Renew the lease of a session, counted from the moment when this request arrived."""
    name = checked_name(session, "session id")
    return json_reply(await request.operations.sessions.keepalive(name, client=request.bound_to))


@answers(
    router,
    GET_SESSION,
    {
        200: (
            "The session.",
            {**_EXAMPLE, "expires_in": 12.5, "locks": [{"store": "flights", "name": "latest"}]},
        )
    },
)
async def get(request: HttpRequest, session: str) -> Response:
    """Return the remaining seconds of the session, and its locks in stores that the client may read.

    Another client's session is shown only to a client that may read every store.
    """
    accepts(request, "application/json")
    name = checked_name(session, "session id")
    client = None if may(request, Right.READ_ALL) else request.bound_to
    return json_reply(await request.operations.sessions.get(name, client, partial(may_read, request)))


@answers(router, END_SESSION, {204: ("Ended: its locks are gone, its epochs are free.", None)})
async def end(request: HttpRequest, session: str) -> Response:
    """End the session at its client's request. Handles stay."""
    acting = caller(request, session)
    if request.owner and request.operations.sessions.owner(acting.session) not in ("", request.owner):
        request.audit_name = "end-session"
    return empty_reply(await request.operations.perform(EndSession(acting.attempt)))

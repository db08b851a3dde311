"""The credentials with which a job reaches its files: a driver requests them here, and Hadoop gets tokens for them."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.errors import Problem
from milepost.operations.files import GET_TOKEN
from milepost.operations.handles import GET_CREDENTIALS
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.job_tokens import LIFE_SECONDS
from milepost_server.http.bodies import form_of
from milepost_server.http.headers import caller, checked_name
from milepost_server.http.openapi.documents import answers, plain
from milepost_server.http.openapi.files import token_operation
from milepost_server.http.replies import json_response, reply_headers
from milepost_server.http.requests import HttpRequest

_MOST_FIELDS = 20
router = APIRouter(tags=["files"])

_EXAMPLE = {
    "epoch": 3,
    "client_id": "flights-3",
    "client_secret": "5d41402abc4b2a76~9f86d081884c7d65...",
    "token_path": GET_TOKEN.path,
}
_TOKEN_EXAMPLE = {"access_token": "milepost-job~5d41...", "token_type": "Bearer", "expires_in": LIFE_SECONDS}


@answers(router, GET_CREDENTIALS, {200: ("What Hadoop's client shows to get tokens; the same each time.", _EXAMPLE)})
async def credentials(request: HttpRequest, store: str) -> Response:
    """Return the OAuth2 client credentials under which a job's driver and executors reach its files.

    Only the session that holds the epoch gets them. They are bound to the store and to that epoch, and are valid as
    long as the service knows the client of this request, and the client may write the store. A service without tokens
    answers 501.
    """
    checked_name(store, "store")
    reply = request.operations.epochs.held(caller(request), store)
    if request.principal is None:
        raise problem(Code.NOT_SUPPORTED, "this deployment has no tokens, so its files need no credentials")
    epoch = reply.answer.body["epoch"]
    request.detail = f"epoch {epoch}"
    credential = await request.context.authentication.jobs.credential(request.principal, store, epoch)
    body = {
        "epoch": epoch,
        "client_id": credential.client_id,
        "client_secret": credential.client_secret,
        "token_path": GET_TOKEN.path,
    }
    return json_response(body, 200, reply_headers(reply))


@plain(router, GET_TOKEN, **token_operation("A bearer token for the files of one job under one epoch.", _TOKEN_EXAMPLE))
async def token(request: HttpRequest) -> Response:
    """Return a token for client credentials (RFC 6749, section 4.4). Every replica answers this itself. With a token of
    an older epoch, writes are refused, and reads are allowed.
    """
    try:
        fields = dict(parse_qsl(await form_of(request), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except (Problem, ValueError):
        return _refused("invalid_request", 400)
    if fields.get("grant_type") != "client_credentials":
        return _refused("unsupported_grant_type", 400)
    jobs = request.context.authentication.jobs
    made = await jobs.token_for(fields.get("client_id", ""), fields.get("client_secret", ""))
    if made is None:
        return _refused("invalid_client", 401)
    body = {"access_token": made, "token_type": "Bearer", "expires_in": LIFE_SECONDS}
    return Response(msgspec.json.encode(body), 200, media_type="application/json")


def _refused(error: str, status: int) -> Response:
    """Return a refusal in the format of RFC 6749, section 5.2."""
    return Response(msgspec.json.encode({"error": error}), status, media_type="application/json")

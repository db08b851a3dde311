"""The routes of ``/v1/jobs`` by which a person stops a job, hands it over to a standby, and starts it again."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import HAND_OVER_JOB, START_JOB, STOP_JOB
from milepost.wire import MAX_REASON_CHARACTERS, Code
from milepost_server.basics.problems import problem
from milepost_server.http.bodies import json_of
from milepost_server.http.headers import caller_without_session, checked_name
from milepost_server.http.openapi.documents import EPOCH_EXAMPLE, WISH_EXAMPLE, answers, json_body
from milepost_server.http.openapi.schemas import NAME_SCHEMA
from milepost_server.http.replies import json_reply
from milepost_server.http.requests import HttpRequest
from milepost_server.model.requests.wishes import HandOver, StartJob, StopJob

router = APIRouter(tags=["jobs"])

_TEXT = {"type": "string", "maxLength": MAX_REASON_CHARACTERS}
_STATED = {"who": _TEXT, "reason": _TEXT}
_LED = {"job": "flights", "state": "led", **EPOCH_EXAMPLE}


class WishBody(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a JSON body that says who asks, and why."""

    who: str = ""
    reason: str = ""

    def check(self) -> None:
        """Raise an ``invalid-request`` problem if a text is too long, or cannot be shown."""
        for name, text in (("who", self.who), ("reason", self.reason)):
            if len(text) > MAX_REASON_CHARACTERS or not text.isprintable():
                detail = f"{name} takes at most {MAX_REASON_CHARACTERS} printable characters"
                raise problem(Code.INVALID_REQUEST, detail)


class StopBody(WishBody, forbid_unknown_fields=True):
    """The JSON body of a request to stop a job."""

    savepoint: str | None = None


class HandOverBody(WishBody, forbid_unknown_fields=True):
    """The JSON body of a request to hand a job over."""

    epoch: int = 0
    force: bool = False
    to: str = ""


@answers(
    router,
    STOP_JOB,
    {200: ("The wish is recorded.", {**_LED, "state": "stopping", "wish": WISH_EXAMPLE})},
    body=json_body(
        {"savepoint": "before-release-7", "who": "anna@laptop", "reason": "new release"},
        {"savepoint": NAME_SCHEMA, **_STATED},
        [],
    ),
)
async def stop(request: HttpRequest, store: str) -> Response:
    """Ask the driver of a job to stop in order, and grant no further epoch until the job is started.

    The driver stops between two batches, and resigns. The state is `stopping` until then, and `stopped` from then on.
    With `savepoint`, the service makes a savepoint of the state after the last batch, in the commit that ends the
    epoch, or at once if no driver leads. A repeated request is answered as the first. `who` and `reason` are for people
    to read.
    """
    checked_name(store, "store")
    body = await json_of(request, StopBody, optional=True)
    body.check()
    if body.savepoint is not None:
        checked_name(body.savepoint, "savepoint")
        request.detail = f"with savepoint {body.savepoint}"
    attempt = caller_without_session(request).attempt
    asked = StopJob(attempt, store, body.who, body.reason, body.savepoint or "")
    return json_reply(await request.operations.wishes.stop(asked))


@answers(
    router,
    HAND_OVER_JOB,
    {200: ("The wish is recorded.", {**_LED, "wish": {**WISH_EXAMPLE, "kind": "hand-over", "savepoint": None}})},
    body=json_body(
        {"epoch": 3, "who": "anna@laptop", "reason": "drain of the node"},
        {
            "epoch": {"type": "integer", "format": "int64", "minimum": 0},
            "force": {"type": "boolean"},
            "to": _TEXT,
            **_STATED,
        },
        [],
    ),
)
async def hand_over(request: HttpRequest, store: str) -> Response:
    """Ask the driver of a job to resign between two batches, so that a standby leads.

    `epoch` is the epoch that shall end, the current one if it is 0 or absent. Nothing is asked if that epoch has ended,
    or if the job is stopped. Refused if no driver stands by, unless `force` is true. `to` is the holder or the session
    of a standby: the others leave the epoch to it for ten seconds after it is free. Refused if no such driver stands
    by; it needs `epoch`.
    """
    checked_name(store, "store")
    body = await json_of(request, HandOverBody, optional=True)
    body.check()
    if body.epoch < 0:
        raise problem(Code.INVALID_REQUEST, "epoch takes a whole number of 0 or more")
    if body.to:
        if body.force or not body.epoch:
            raise problem(Code.INVALID_REQUEST, "to needs the epoch that shall end, and takes no force")
        request.detail = f"to {body.to}"
    attempt = caller_without_session(request).attempt
    asked = HandOver(attempt, store, body.who, body.reason, body.epoch)
    return json_reply(await request.operations.wishes.hand_over(asked, force=body.force, to=body.to))


@answers(
    router,
    START_JOB,
    {200: ("Epochs are granted again.", {**_LED, "state": "resigned", "wish": None})},
    body=json_body({"who": "anna@laptop"}, _STATED, []),
)
async def start(request: HttpRequest, store: str) -> Response:
    """Take a wish to stop back: the first driver that stands by, or that asks, is granted the next epoch.

    A job that is not stopped stays as it is. A driver that has begun to stop ends all the same.
    """
    checked_name(store, "store")
    body = await json_of(request, WishBody, optional=True)
    body.check()
    attempt = caller_without_session(request).attempt
    return json_reply(await request.operations.wishes.start(StartJob(attempt, store, body.who, body.reason)))

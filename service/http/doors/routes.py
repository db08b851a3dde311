"""The routes of ``/doors``, which are for the replicas of a deployment among themselves: each message proves itself."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.wire import Code
from service.basics.problems import problem
from service.http.bodies import gathered
from service.http.doors.messages import HERE_PATH, PROOF, PUBLISH_PATH, Here, Publish, checked, published
from service.http.headers import one
from service.http.requests import HttpRequest
from service.operations.trees import At
from service.rules.requests import BlobRef

router = APIRouter(include_in_schema=False)
Message = TypeVar("Message", Here, Publish)


@router.post(HERE_PATH)
async def here(request: HttpRequest) -> Response:
    """Note that another replica is a door, to which clients can be sent."""
    message = await _said(request, Here)
    if not request.context.journal.lease_holds():
        raise problem(Code.NO_LEADER, "this replica does not lead")
    known = request.context.doors.known
    if message.leaving:
        known.forget(message.url)
    else:
        known.note(message.url)
    return Response(b"{}", media_type="application/json")


@router.post(PUBLISH_PATH)
async def publish(request: HttpRequest) -> Response:
    """Publish a file whose bytes another replica has taken."""
    message = await _said(request, Publish)
    at = At(message.store, message.path)
    permit = await request.context.doors.to_publish(message.permit, at)
    ended = await request.operations.publisher.publish(
        at,
        permit.epoch,
        BlobRef(message.blob, message.size, message.sha256),
        message.data,
        overwrite=permit.overwrite,
        key=permit.key,
        attempt=message.attempt,
        begun=permit.begun,
    )
    return Response(msgspec.json.encode(published(ended)), media_type="application/json")


async def _said(request: HttpRequest, kind: type[Message]) -> Message:
    body = await gathered(request)
    checked(body, one(request, PROOF) or "", await request.context.doors.key.get())
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise problem(Code.INVALID_REQUEST, f"another release of this replica said that: {error}") from error

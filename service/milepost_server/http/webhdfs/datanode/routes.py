"""The routes of ``/datanodes``, which replicas of a deployment call: each message carries its own proof."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.replicas import HEARTBEAT_DATA_NODE, PUBLISH_FILE
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.bodies import gathered
from milepost_server.http.headers import one
from milepost_server.http.openapi.documents import plain
from milepost_server.http.requests import Context, HttpRequest
from milepost_server.http.webhdfs.datanode.peer import (
    PROOF,
    Heartbeat,
    Publish,
    checked,
    published,
)
from milepost_server.model.requests.base import BlobRef
from milepost_server.operations.trees import At

router = APIRouter()
Message = TypeVar("Message", Heartbeat, Publish)


@plain(router, HEARTBEAT_DATA_NODE)
async def heartbeat(request: HttpRequest) -> Response:
    """Note that another replica is a data node, to which clients can be sent, or that it no longer is one."""
    message = await _message(request, Heartbeat)
    if not request.context.journal.lease_holds():
        raise problem(Code.NO_LEADER, "this replica does not lead")
    known = request.context.data_nodes.known
    if message.leaving:
        known.forget(message.url)
    else:
        known.note(message.url)
    return Response(b"{}", media_type="application/json")


@plain(router, PUBLISH_FILE)
async def publish(request: HttpRequest) -> Response:
    """Publish a file whose bytes another replica has received."""
    message = await _message(request, Publish)
    return Response(await published_as_asked(request.context, message), media_type="application/json")


async def published_as_asked(context: Context, message: Publish) -> bytes:
    """Publish a file whose bytes another replica has received, and return the body of the answer."""
    at = At(message.store, message.path)
    token = await context.data_nodes.to_publish(message.token, at)
    ended = await context.operations.publisher.publish(
        at,
        token.epoch,
        BlobRef(message.blob, message.size, message.sha256),
        message.data,
        overwrite=token.overwrite,
        key=token.key,
        attempt=message.attempt,
        begun=token.begun,
    )
    return msgspec.json.encode(published(ended))


async def _message(request: HttpRequest, kind: type[Message]) -> Message:
    body = await gathered(request)
    checked(body, one(request, PROOF) or "", await request.context.data_nodes.key.get())
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise problem(Code.INVALID_REQUEST, f"another release of this replica said that: {error}") from error

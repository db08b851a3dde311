"""What clients ask, and how a replica is asked: the operations of the service, without HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.intake import Incoming
from milepost_server.model.requests.base import Attempt, BlobRef, Request
from milepost_server.model.requests.handles import (
    Add,
    Campaign,
    Clear,
    CreateUpload,
    LockAll,
    LockHandle,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Replace,
    Resign,
)
from milepost_server.model.requests.sessions import EndSession, OpenSession
from milepost_server.model.requests.trees import TreeRequest
from milepost_server.operations import states
from milepost_server.operations.operations import Operations, operations_of
from milepost_server.operations.uploads import Reference
from milepost_server.replica.replica import Replica
from milepost_server.replica.submitter import Caller, Reply
from tests.simulation.callers import tree_calls
from tests.simulation.callers.model import Body
from tests.simulation.callers.tree_calls import TreeLook
from tests.simulation.world.blobs import SimBlobs
from tests.support.answers import plain

Kind = Literal["get", "list", "state", "redirect", "epoch", "session", "keepalive", "stores"]


@dataclass(frozen=True, slots=True)
class Look:
    """A call that changes nothing that is stored."""

    kind: Kind
    store: str = ""
    name: str = ""
    session: str = ""
    version: str | None = None


Ask = Request | Look | TreeLook


@dataclass(frozen=True, slots=True)
class GoodAnswer:
    """A good answer. ``url``: where to put what was announced. Those of WebHDFS name no revision."""

    revision: int
    body: Any
    replayed: bool = False
    url: str = ""


class Call:
    """One thing that a client wants, over all its attempts.

    ``undelivered``: attempts that are on their way to a replica. ``floor``: the newest revision that anybody had been
    told of when the last attempt was sent, at ``sent``; ``begun``: when the first one was. ``denied``: its client was
    told that it is not applied.
    """

    __slots__ = ("ask", "begun", "content", "denied", "floor", "number", "sent", "undelivered")

    def __init__(self, number: int, ask: Ask, content: bytes = b"") -> None:
        self.number = number
        self.ask = ask
        self.content = content
        self.undelivered = 0
        self.floor = self.begun = 0
        self.sent = 0.0
        self.denied = False

    def __repr__(self) -> str:
        return f"call {self.number} {self.ask}"


def blob_of(content: bytes) -> BlobRef:
    """How a request refers to its bytes before they lie anywhere."""
    return BlobRef("", len(content), hashlib.sha256(content).hexdigest())


async def serve(replica: Replica, call: Call, attempt: int, received: float) -> GoodAnswer:
    """Do what the HTTP routes do. Raises problems."""
    ask, operations = call.ask, operations_of(replica)
    if isinstance(ask, TreeRequest | TreeLook):
        return GoodAnswer(0, await tree_calls.serve(replica, operations, ask, attempt, call.content))
    if isinstance(ask, Look):
        return await _LOOKS[ask.kind](replica, operations, ask, received)
    caller = Caller(Attempt(ask.session, ask.key, attempt), getattr(ask, "epoch", None))
    reply = await _changing(operations, caller, ask, call.content)
    if isinstance(ask, CreateUpload):
        body = dict(reply.answer.body)
        return GoodAnswer(reply.revision, {"upload": body["upload"]}, reply.answer.replayed, body["url"])
    return _good_answer(reply)


def _changing(operations: Operations, caller: Caller, ask: Request, content: bytes) -> Awaitable[Reply]:
    match ask:
        case Add():
            return operations.states.add(caller, ask.store_name, ask.name, _state(ask, content), ask.labels)
        case Replace():
            state = _state(ask, content)
            return operations.states.replace(caller, ask.store_name, ask.name, ask.version, state, ask.labels)
        case CreateUpload():
            return operations.uploads.create(caller, ask.store_name, ask.blob.size, ask.blob.sha256)
        case Remove():
            return operations.handles.remove(caller, ask.store_name, ask.name, ask.version)
        case LockHandle():
            return operations.perform(LockHandle(caller.attempt, ask.store_name, ask.name))
        case ReleaseHandle():
            return operations.perform(ReleaseHandle(caller.attempt, ask.store_name, ask.name))
        case LockAll():
            return operations.stores.lock_all(caller, ask.store_name)
        case ReleaseAll():
            return operations.perform(ReleaseAll(caller.attempt, ask.store_name))
        case Clear():
            return operations.perform(Clear(caller.attempt, ask.store_name, caller.epoch))
        case Campaign():
            return operations.epochs.campaign(caller, ask.store_name, 0.5)
        case Resign():
            return operations.perform(Resign(caller.attempt, ask.store_name))
        case OpenSession():
            return operations.sessions.open(caller, ask.ttl, ask.holder)
        case EndSession():
            return operations.perform(EndSession(caller.attempt))
    raise TypeError(f"no operation for {ask}")


def _state(ask: Add | Replace, content: bytes) -> states.State:
    if ask.upload is not None:
        return Reference(ask.upload.id, ask.blob.size, ask.blob.sha256)
    return Incoming(stream_of(content), len(content), ask.blob.sha256)


async def _get(_: Replica, operations: Operations, look: Look, _received: float) -> GoodAnswer:
    return _good_answer(operations.handles.get(look.store, look.name))


async def _list(_: Replica, operations: Operations, look: Look, _received: float) -> GoodAnswer:
    page = await operations.handles.list_page(look.store, "", 1000)
    return GoodAnswer(page.revision, page.handles + page.corrupt)


async def _bytes(_: Replica, operations: Operations, look: Look, _received: float) -> GoodAnswer:
    delivery = await operations.reader.read(
        look.store, look.name, look.version, lambda handle: states.Span(0, handle.size)
    )
    data = b"".join([chunk async for chunk in delivery.chunks])
    return GoodAnswer(delivery.revision, (delivery.handle.version, data))


async def _redirect(replica: Replica, operations: Operations, look: Look, received: float) -> GoodAnswer:
    """The bytes as they lie where the reader is sent to; gone by then, he asks again. Small ones come at once."""
    blobs = replica.blobs.beneath
    assert isinstance(blobs, SimBlobs)
    while True:
        location = await operations.reader.locate(
            look.store, look.name, look.version, lambda handle: states.Span(0, handle.size)
        )
        if location is None:
            return await _bytes(replica, operations, look, received)
        data = blobs.fetch(location.url)
        if data is not None:
            return GoodAnswer(location.revision, (location.handle.version, data))


async def _epoch(_: Replica, operations: Operations, look: Look, _received: float) -> GoodAnswer:
    return _good_answer(operations.epochs.current(look.store))


async def _session(_: Replica, operations: Operations, look: Look, _received: float) -> GoodAnswer:
    return _good_answer(await operations.sessions.get(look.session))


async def _keepalive(_: Replica, operations: Operations, look: Look, received: float) -> GoodAnswer:
    return _good_answer(await operations.sessions.keepalive(look.session, received))


async def _stores(replica: Replica, operations: Operations, _look: Look, _received: float) -> GoodAnswer:
    page = await operations.stores.list_page("", 1000)
    body: list[Body] = page.stores
    return GoodAnswer(replica.journal.head.revision, body)


_LOOKS: dict[Kind, Callable[[Replica, Operations, Look, float], Awaitable[GoodAnswer]]] = {
    "get": _get,
    "list": _list,
    "state": _bytes,
    "redirect": _redirect,
    "epoch": _epoch,
    "session": _session,
    "keepalive": _keepalive,
    "stores": _stores,
}


def _good_answer(reply: Reply) -> GoodAnswer:
    return GoodAnswer(reply.revision, plain(reply.answer.body), reply.answer.replayed)

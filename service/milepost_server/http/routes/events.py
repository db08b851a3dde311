"""The routes of ``/v1/stores/{store}/events`` and ``/v1/jobs/{store}/events``: the events of a store or a job as
server-sent events.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Final

import msgspec
from fastapi import APIRouter
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from milepost.errors import Problem
from milepost.operations.handles import WATCH_JOB, WATCH_STORE
from milepost.operations.operation import RestOperation, Right
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import require
from milepost_server.http.access.tokens import bearer_of
from milepost_server.http.connection.exchange import exchange_of
from milepost_server.http.headers import accepts, checked_name, one
from milepost_server.http.openapi.documents import answers
from milepost_server.http.queries import only_known
from milepost_server.http.replies import about
from milepost_server.http.requests import HttpRequest
from milepost_server.journal import Place
from milepost_server.operations.watching import RunningWatch, WatchEnded
from milepost_server.rules.events import Event

_MEDIA_TYPE: Final = "text/event-stream"
_UNBUFFERED: Final = {"X-Accel-Buffering": "no"}
"""The header by which nginx, and proxies that follow it, pass each event on at once."""

_RETRY: Final = b"retry: 1000\n"
"""What a browser is told to wait, in milliseconds, before it connects again."""

_PLACE: Final = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?\Z", re.ASCII)

_Open = Callable[[str, str, Place | None], AbstractContextManager[RunningWatch]]
"""Opens a watch of a client on a store or a job of this name, which begins at a place."""

router = APIRouter(tags=["stores"])
router_of_jobs = APIRouter(tags=["jobs"])


@answers(
    router,
    WATCH_STORE,
    {200: ("Server-sent events.", 'id: 42\nevent: cleared\ndata: {"revision":42}\n\n')},
)
async def watch(request: HttpRequest, store: str) -> Response:
    """Stream the events of a store, from a place on or from now on, until the client or the leadership is gone."""
    return _stream(request, WATCH_STORE, store, request.operations.watching.watch)


@answers(
    router_of_jobs,
    WATCH_JOB,
    {
        200: (
            "Server-sent events.",
            'id: 42\nevent: savepoint-dropped\ndata: {"kind":"savepoint-dropped","at":"2026-01-01T12:00:00.000Z",'
            '"revision":42,"id":"42","savepoint":"before-upgrade","snapshot":21}\n\n',
        )
    },
)
async def watch_job(request: HttpRequest, store: str) -> Response:
    """Stream what happens to a job, from a place on or from now on: each entry of its history, once it is committed."""
    return _stream(request, WATCH_JOB, store, request.operations.watching.watch_job)


def _stream(request: HttpRequest, operation: RestOperation, store: str, watch: _Open) -> Response:
    """Return the answer to a request that watches a store or a job, with the watch that ``watch`` opens."""
    checked_name(store, "store")
    accepts(request, _MEDIA_TYPE)
    only_known(request, operation)
    after = _place_of(request)
    peer = request.client.host if request.client is not None else ""
    opened = ExitStack()
    begun = opened.enter_context(watch(request.owner or peer, store, after))
    request.begun = request.context.clock()
    return EventStream(begun, opened, lambda: _check_rights(request, store), request.context.heartbeat_seconds)


def _place_of(request: HttpRequest) -> Place | None:
    """Return the place after which the client wants events, None for now. A client that connects again repeats its
    query, so Last-Event-ID counts before the query.
    """
    given = one(request, "Last-Event-ID") or request.query_params.get("after")
    if given is None:
        return None
    match = _PLACE.match(given)
    if match is None:
        raise problem(Code.INVALID_REQUEST, f"{given[:60]!r} is no revision and no id of an event")
    revision, index = match.groups()
    return Place(int(revision)) if index is None else Place(int(revision), int(index))


async def _check_rights(request: HttpRequest, store: str) -> None:
    """Raise the problem with which the request would be refused now, if its token or the right was withdrawn."""
    authentication = request.context.authentication
    if authentication.required:
        request.principal = await authentication.principal(bearer_of(request.fields.get("authorization")))
        require(request, Right.READ, store)


class EventStream(Response):
    """The answer to a watch: it sends events until the watch ends, or ``check`` raises a problem.

    ``check`` is called each ``heartbeat`` seconds. A client that got no event since gets its place instead, so that it
    knows that the connection lives.
    """

    def __init__(
        self, watch: RunningWatch, opened: ExitStack, check: Callable[[], Awaitable[None]], heartbeat: float
    ) -> None:
        super().__init__(None, 200, {**about(watch.begin.revision, watch.term), **_UNBUFFERED}, _MEDIA_TYPE)
        del self.headers["content-length"]
        self._watch = watch
        self._opened = opened
        self._check = check
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the stream. ``send`` waits while the client reads slowly, and nothing is kept for it meanwhile."""
        gone = asyncio.ensure_future(exchange_of(scope).hung_up())
        gone.add_done_callback(lambda _: self._watch.hang_up())
        try:
            with self._opened:
                await self._send(send)
        finally:
            gone.cancel()

    async def _send(self, send: Send) -> None:
        async def body(part: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": part, "more_body": more})

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await body(_RETRY + _bookmark(self._watch.begin))
        loop = asyncio.get_running_loop()
        due = loop.time() + self._heartbeat
        try:
            while True:
                events = await self._watch.next(max(0.0, due - loop.time()))
                if events:
                    await body(b"".join(map(_block, events)))
                if loop.time() >= due:
                    await self._check()
                    due = loop.time() + self._heartbeat
                    if not events:
                        await body(_bookmark(self._watch.place))
        except WatchEnded as ended:
            last, reason = _bookmark(self._watch.place), ended.reason
        except Problem as error:
            last, reason = b"", error.code.value
        data = msgspec.json.encode({"reason": reason})
        await body(b"%bevent: end\ndata: %b\n\n" % (last, data), more=False)


def _block(event: Event) -> bytes:
    """Return an event as server-sent events write it. The data is JSON, which has no line breaks."""
    head = f"id: {Place(*event.place)}\nevent: {event.type}\n"
    return b"%bdata: %b\n\n" % (head.encode(), event.data)


def _bookmark(place: Place) -> bytes:
    """Return a block without an event, by which the client learns its place."""
    return f": at {place}\nid: {place}\n\n".encode()

"""Pure ASGI middleware: paths decoded once, request ids, term and revision on each answer, tokens, and the way to
the leader.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from milepost.errors import Problem
from milepost.wire import API, Code, Header
from service.http.context import Context
from service.http.problems import problem_response
from service.problems import problem

log = logging.getLogger("milepost.access")

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}\Z")
_ANSWERED_ANYWHERE = frozenset({f"{API}/status"})
_ENCODED_SLASH = "\x1f"
"""Stands for a percent-encoded slash inside of a segment: no name may have it, and it must not split the path."""


class Envelope:
    """Around everything: the path, the id, the headers that every answer has, the log line, the metrics."""

    def __init__(self, app: ASGIApp, context: Context, clock: Callable[[], float]) -> None:
        self._app = app
        self._context = context
        self._clock = clock

    @property
    def idle_seconds(self) -> float:
        """How long a sender inside a request may send nothing."""
        return self._context.replica.settings.idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["path"] = _decoded(scope.get("raw_path") or scope["path"].encode())
        request_id = _request_id(Headers(scope=scope))
        started, status = self._clock(), 0

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._dress(MutableHeaders(scope=message), scope["path"], request_id)
            await send(message)

        try:
            await self._app(scope, receive, dressed)
        finally:
            seconds = self._clock() - started
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._context.metrics.requests.labels(method, status).inc()
            self._context.metrics.seconds.labels(method).observe(seconds)
            _log(scope["method"], _printable(scope["path"]), status, seconds, request_id)

    def refusal(self, error: Problem, headers: Headers) -> Response:
        """The answer to what never becomes a request, of which these headers were read; counted and logged as others.

        Which path was meant is not known, so it is about no store.
        """
        response = problem_response(error)
        request_id = _request_id(headers)
        self._dress(response.headers, "", request_id)
        self._context.metrics.requests.labels("other", response.status_code).inc()
        _log("-", "-", response.status_code, 0.0, request_id)
        return response

    def _dress(self, headers: MutableHeaders, path: str, request_id: str) -> None:
        journal = self._context.replica.journal
        headers[Header.REQUEST_ID] = request_id
        headers.setdefault(Header.TERM, str(journal.term))
        if path.startswith(f"{API}/stores/") and self._context.replica.leads:
            headers.setdefault(Header.REVISION, str(journal.head.revision))


class Gate:
    """Before the routes: who may come in, and who is sent on to the leader."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(f"{API}/"):
            answer = await self._answer(scope)
            if answer is not None:
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response | None:
        try:
            self._context.tokens.check(Headers(scope=scope).get("authorization"), scope["method"])
        except Problem as error:
            return problem_response(error)
        if scope["path"] in _ANSWERED_ANYWHERE or self._context.replica.leads:
            return None
        leader = await self._context.whereabouts.elsewhere()
        if leader is None:
            return problem_response(problem(Code.NO_LEADER, "there is no leader at the moment"))
        query = scope["query_string"].decode("ascii")
        target = scope["raw_path"].decode("ascii") + (f"?{query}" if query else "")
        return Response(status_code=307, headers={Header.LOCATION: leader.rstrip("/") + target})


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


def _request_id(headers: Headers) -> str:
    given = headers.get(Header.REQUEST_ID, "")
    return given if _REQUEST_ID.match(given) else secrets.token_hex(8)


def _log(method: str, path: str, status: int, seconds: float, request_id: str) -> None:
    log.info("%s %s %d %.1f ms %s", method, path, status, seconds * 1e3, request_id)


def _decoded(raw_path: bytes) -> str:
    segments = raw_path.decode("ascii", errors="replace").split("/")
    return "/".join(unquote(segment, errors="replace").replace("/", _ENCODED_SLASH) for segment in segments)


def _printable(path: str) -> str:
    return path.encode("unicode_escape").decode("ascii")[:300]

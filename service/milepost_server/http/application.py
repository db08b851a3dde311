"""The ASGI application: it passes each request to its endpoint, and logs and counts each answer.

Each answer has the request's id and the term, and also the revision if it is about a store.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from urllib.parse import unquote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from milepost.errors import Problem
from milepost.operations.replicas import HEARTBEAT_DATA_NODE
from milepost.wire import Code, Header, Outcome
from milepost_server.basics.problems import problem
from milepost_server.http.access import audit
from milepost_server.http.access.gate import Gate
from milepost_server.http.connection.connections import Connections
from milepost_server.http.connection.exchange import exchange_of
from milepost_server.http.replies import (
    cancelled_problem,
    common_fields,
    internal_problem,
    new_request_id,
    problem_response,
)
from milepost_server.http.requests import Context, Fields, HttpRequest
from milepost_server.http.routing import Routes, allowed
from milepost_server.http.short_ways import ShortWays
from milepost_server.http.webhdfs.errors import remote_exception

log = logging.getLogger("milepost.http")

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}\Z")
_ENCODED_SLASH = "\x1f"
"""The character that replaces a percent-encoded slash, which must not split the path. No name may contain this
character.
"""

_ABOUT_FILES = re.compile(rb"\S+ (?:[a-z]+://[^/\s]*)?/webhdfs(?:[/?\s]|\Z)")
"""The pattern of a request line for the files of jobs. Hadoop's clients send these requests, and understand only the
refusals of WebHDFS.
"""

_REVISION = Header.REVISION.lower().encode()


class Application:
    """The ASGI application of the service. It speaks HTTP and no other protocol."""

    def __init__(self, context: Context, routes: Routes) -> None:
        self._context = context
        self._routes = routes
        self._gate = Gate(context)
        self._short_way = ShortWays(context)

    @property
    def idle_seconds(self) -> float:
        """The seconds for which a client may send nothing inside of a request."""
        return self._context.idle_seconds

    @property
    def connections(self) -> Connections:
        """All connections of the server."""
        return self._context.connections

    @property
    def short_way(self) -> ShortWays:
        """What answers some requests in front of the parser."""
        return self._short_way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request, as ASGI requires; log and count the answer."""
        if scope["type"] != "http":
            raise RuntimeError(f"this application does not speak {scope['type']}")
        clock = self._context.clock
        started, status = clock(), 0
        fields = Fields(scope["headers"])
        segments = _segments(scope["raw_path"])
        path = scope["path"] = "/".join(segments)
        request_id = _request_id(fields)
        request = HttpRequest(scope, receive, send, self._context, fields)
        try:
            response = await self._answer(request, segments)
            if request.audit_name:
                _note(request, path, response.status_code, request_id)
            self._add_common_headers(response, request_id, about_store=segments[1:3] == _STORES and len(segments) > 3)
            status = response.status_code
            if type(response) is Response:
                await exchange_of(scope).reply(response)
            else:
                await response(scope, receive, send)
        except asyncio.CancelledError:
            # The server is stopping and has cancelled this request. The client gets a problem if its answer has not
            # begun.
            if request.audit_name and not status:
                _note(request, path, 0, request_id)
            if not status:
                response = _refusal_for(segments)(cancelled_problem(scope["method"], path, request_id))
                self._add_common_headers(response, request_id, about_store=False)
                status = response.status_code
                await response(scope, receive, send)
        finally:
            seconds = (request.begun or clock()) - started
            self._context.metrics.note(scope["method"], status, seconds)
            # A heartbeat that succeeds is not logged: each data node sends one every two seconds.
            is_heartbeat = path == HEARTBEAT_DATA_NODE.path and status == 200
            if self._context.access is not None and not is_heartbeat:
                self._context.access.note(scope["method"], path, status, seconds, request_id, request.token_name)

    def refusal(self, error: Problem, fields: Fields, line: bytes) -> Response:
        """Return the answer to input that is not a valid request. ``fields`` are the header fields that could be read,
        and ``line`` is the beginning of the request line. The answer is counted and logged like any other.
        """
        respond = remote_exception if _ABOUT_FILES.match(line) else problem_response
        response, request_id = respond(error), _request_id(fields)
        self._add_common_headers(response, request_id, about_store=False)
        self._context.metrics.refused(response.status_code)
        if self._context.access is not None:
            self._context.access.note("-", "-", response.status_code, 0.0, request_id)
        return response

    async def _answer(self, request: HttpRequest, segments: list[str]) -> Response:
        """Return the answer to a request, also if its endpoint raises an exception.

        An unexpected exception is logged here; the client learns only that there was an internal error.
        """
        respond = _refusal_for(segments)
        try:
            endpoints, parameters = self._routes.find(segments)
            endpoint = endpoints.get(request.method)
            request.audit_name = endpoint.operation.audit_name if endpoint is not None else ""
            sent_on = await self._gate.passes(request, segments, endpoint, parameters)
            if sent_on is not None:
                return sent_on
            if endpoint is None:
                return respond(*_not_there(request, segments, allowed(endpoints)))
            return await endpoint.answer(request, parameters)
        except Problem as error:
            request.problem = error
            return respond(error)
        except Exception:
            log.exception("%s %s failed unexpectedly and is answered as 500", request.method, request.scope["path"])
            request.problem = internal_problem()
            return respond(request.problem)

    def _add_common_headers(self, response: Response, request_id: str, *, about_store: bool) -> None:
        """Add the headers that every answer has, unless the endpoint has set them.

        The endpoint has set the revision and the term if it read them from the journal, and the header Cache-Control if
        the answer may be cached.
        """
        journal, headers = self._context.journal, response.raw_headers
        there = {name for name, _ in headers}
        headers += [field for field in common_fields(request_id, journal.term) if field[0] not in there]
        if about_store and _REVISION not in there and journal.lease_holds():
            headers.append((_REVISION, b"%d" % journal.head.revision))


_STORES = ["v1", "stores"]


def _note(request: HttpRequest, path: str, status: int, request_id: str) -> None:
    """Add an administrative operation to the audit log, with its outcome; ``status`` is 0 if the outcome is not known.
    A redirected operation is not noted here, since the leader notes it.
    """
    error = request.problem
    if status == 307:
        return
    outcome = audit.DONE if error is None else f"{error.outcome.value}:{error.code.value}"
    audit.note(
        request.audit_name,
        path,
        by=request.token_name,
        outcome=outcome if status else Outcome.UNKNOWN.value,
        request_id=request_id,
        detail=request.detail,
    )


def _refusal_for(segments: list[str]) -> Callable[..., Response]:
    """Return the function that turns a problem into an answer, in the format of the API to which the path belongs."""
    return remote_exception if segments[1:2] == ["webhdfs"] else problem_response


def _not_there(request: HttpRequest, segments: list[str], methods: str) -> tuple[Problem, dict[str, str]]:
    """Return a problem, and the headers of its answer, for a path that does not exist, or that does not support the
    request's method. ``methods`` names the methods that the path supports; empty if the path does not exist.
    """
    path = request.scope["path"]
    if methods:
        return problem(Code.METHOD_NOT_ALLOWED, f"{request.method} {path}"), {"Allow": methods}
    if segments[1:2] == ["v1"] and "" in segments[2:]:
        return problem(Code.INVALID_NAME, "a name must not be empty"), {}
    return problem(Code.NO_ROUTE, f"{request.method} {path}"), {}


def _request_id(fields: Fields) -> str:
    given = fields.get(Header.REQUEST_ID)
    return given if given and _REQUEST_ID.match(given) else new_request_id()


def _segments(raw_path: bytes) -> list[str]:
    """Return the segments of a path, each decoded."""
    segments = raw_path.decode("ascii", errors="replace").split("/")
    if b"%" not in raw_path:
        return segments
    return [unquote(segment, errors="replace").replace("/", _ENCODED_SLASH) for segment in segments]

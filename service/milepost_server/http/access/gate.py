"""Checks the rights of a request's caller before any endpoint runs, and redirects requests to the leader."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from milepost.errors import Problem
from milepost.operations import OPERATIONS
from milepost.operations.operation import Right
from milepost.wire import Code, Header
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import RIGHTS_OF_JOBS, may_use, of_retry, require
from milepost_server.http.access.tokens import bearer_of
from milepost_server.http.connection.exchange import is_certified
from milepost_server.http.replies import CLOSING
from milepost_server.http.requests import Context, HttpRequest
from milepost_server.http.routing import Endpoint

_ANSWERED_ANYWHERE = [
    operation.path.split("/")
    for operation in OPERATIONS.values()
    if operation.path.startswith("/v1/") and not operation.by_leader
]
_FILES = "webhdfs"
_GUARDED = {"v1", _FILES}
_HEALTH = {"livez", "readyz", "leader", "metrics"}
_OF_JOBS = {_FILES, "oauth2"}
_SHORT_BODY = 16 * 1024
"""The length in bytes up to which a body counts as sent soon."""


class Gate:
    """Decides whether a request goes on to its endpoint: checks the caller's rights or the header Host, and redirects
    to the leader. Operations that need no right, such as health, pass without these checks.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    async def passes(
        self, request: HttpRequest, segments: Sequence[str], endpoint: Endpoint | None, parameters: Sequence[str]
    ) -> Response | None:
        """Return None if this replica answers the request, else the redirect to the leader.

        ``endpoint`` is the one for the request's method and path, with the ``parameters`` in that path; None if there
        is no such endpoint. Stores the caller in the request. Raises ``unauthenticated``, ``forbidden`` and
        ``no-leader`` problems.

        If clients must present a certificate, a client without one reaches only health and, with a job's token, the
        files of that job. Hadoop's client cannot present a certificate; its token comes from a driver that presented
        one.
        """
        context = self._context
        required = context.authentication.required
        of_job = endpoint is not None and endpoint.operation.right in RIGHTS_OF_JOBS
        needs_certificate = context.certified_only and not is_certified(request.scope)
        if needs_certificate and not (_open_without_certificate(segments, tokens=required) or (required and of_job)):
            raise _uncertified()
        below = len(segments) > 2 and segments[1] in _GUARDED and not segments[0]
        if not below and (endpoint is None or endpoint.operation.right is Right.NOTHING):
            return None
        if required:
            try:
                await self._authenticate(request)
                if endpoint is not None:
                    _authorize(request, endpoint, parameters)
            except Problem as error:
                raise of_retry(error, request) from None
            if needs_certificate and request.job is None:
                raise _uncertified()
        elif context.hosts is not None:
            fields = request.fields
            host = fields.get("host") if "host" in fields else None
            context.hosts.check(host, fields.all("origin"), request.method)
        # WebHDFS is not redirected to the leader, since Hadoop's client finds the leader itself
        if segments[1] != "v1" or context.journal.lease_holds() or segments in _ANSWERED_ANYWHERE:
            return None
        if endpoint is not None and not endpoint.operation.by_leader:
            return None
        return await self._redirect(request)

    async def _authenticate(self, request: HttpRequest) -> None:
        """Find the caller by the bearer token, and store it in the request. Raises ``unauthenticated`` if the token is
        missing or unknown, and the other problems of `Authentication.job` and `Authentication.principal`.
        """
        bearer = bearer_of(request.fields.get("authorization"))
        request.job = await self._context.authentication.job(bearer)
        if request.job is None:
            request.principal = await self._context.authentication.principal(bearer)

    async def _redirect(self, request: HttpRequest) -> Response:
        context = self._context
        leader = await context.leader_locator.elsewhere()
        if leader is None:
            damage = context.journal.unproven
            detail = f", because the stored records could not be verified: {damage}" if damage else ""
            raise problem(Code.NO_LEADER, f"there is no leader at the moment{detail}")
        query = request.scope["query_string"].decode("ascii")
        target = request.scope["raw_path"].decode("ascii") + (f"?{query}" if query else "")
        closes = CLOSING if _has_short_body(request) else {}
        return Response(status_code=307, headers={Header.LOCATION: leader.rstrip("/") + target, **closes})


def _authorize(request: HttpRequest, endpoint: Endpoint, parameters: Sequence[str]) -> None:
    """Raise ``forbidden`` unless the caller has the right that the endpoint's operation needs. A job's token permits
    only calls on that job's files.
    """
    right = endpoint.operation.right
    if right in RIGHTS_OF_JOBS:
        if endpoint.operation.of_store:
            may_use(request, right, parameters[0])
        return  # the path names no store: the route determines the store, and checks the right
    if request.job is not None:
        detail = f"the token is for the files of {request.job.store!r} and nothing else"
        raise problem(Code.FORBIDDEN, detail)
    require(request, right, parameters[0] if endpoint.operation.of_store else None)


def _has_short_body(request: HttpRequest) -> bool:
    """Return whether the client has soon sent its request. Many clients read no answer before they have sent all, and
    one in the midst of a long body would find its connection closed, and not learn where the leader is.
    """
    length = request.fields.get("content-length", "0")
    return "transfer-encoding" not in request.fields and int(length) <= _SHORT_BODY


def _open_without_certificate(segments: Sequence[str], *, tokens: bool) -> bool:
    first = segments[1] if len(segments) > 1 else ""
    return first in _HEALTH or (tokens and first in _OF_JOBS)


def _uncertified() -> Problem:
    return problem(Code.FORBIDDEN, "this server wants a certificate of its clients, and this one has shown none")

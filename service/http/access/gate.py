"""The gate in front of the API: it checks who may use it, and redirects requests to the leader."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from milepost.wire import Code, Header
from service.basics.problems import problem
from service.http.access.tokens import bearer_of, check
from service.http.context import Context
from service.http.requests import HttpRequest

_ANSWERED_ANYWHERE = ["", "v1", "status"]
_FILES = "webhdfs"
_GUARDED = {"v1", _FILES}


class Gate:
    """The checks that every request whose path begins with ``/v1/`` or ``/webhdfs/`` has to pass."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def passes(self, request: HttpRequest, segments: Sequence[str]) -> Response | None:
        """Return None if this replica answers the request, else the redirect to the leader.

        Raises ``unauthenticated``, ``forbidden`` and ``no-leader`` problems. The request notes whose token it was.
        """
        if len(segments) < 3 or segments[1] not in _GUARDED or segments[0]:
            return None
        context = self._context
        if context.tokens:
            self._authenticate(request, segments)
        elif context.hosts is not None:
            fields = request.fields
            host = fields.get("host") if "host" in fields else None
            context.hosts.check(host, fields.all("origin"), request.method)
        if context.journal.lease_holds() or segments == _ANSWERED_ANYWHERE or segments[1] != "v1":
            return None  # Hadoop's client looks for the leader itself
        leader = await context.leader_locator.elsewhere()
        if leader is None:
            damage = context.journal.unproven
            detail = f", because the stored records could not be verified: {damage}" if damage else ""
            raise problem(Code.NO_LEADER, f"there is no leader at the moment{detail}")
        query = request.scope["query_string"].decode("ascii")
        target = request.scope["raw_path"].decode("ascii") + (f"?{query}" if query else "")
        return Response(status_code=307, headers={Header.LOCATION: leader.rstrip("/") + target})

    def _authenticate(self, request: HttpRequest, segments: Sequence[str]) -> None:
        """Note in the request whose token it carries. The token of a job opens that job's files, and nothing else."""
        authorization = request.fields.get("authorization")
        request.job = self._context.job_tokens.known(bearer_of(authorization))
        if request.job is None:
            request.token = self._context.tokens.known(authorization)
            check(request.token, request.method)
        elif segments[1] != _FILES:
            raise problem(Code.FORBIDDEN, f"the token is for the files of {request.job.store!r}, and for nothing else")

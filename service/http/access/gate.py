"""The gate in front of the API: it checks who may use it, and redirects requests to the leader."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from milepost.wire import Code, Header
from service.basics.problems import problem
from service.http.access.tokens import check
from service.http.context import Context
from service.http.requests import HttpRequest

_ANSWERED_ANYWHERE = ["", "v1", "status"]


class Gate:
    """The checks that every request whose path begins with ``/v1/`` has to pass."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def passes(self, request: HttpRequest, segments: Sequence[str]) -> Response | None:
        """Return None if this replica answers the request, else the redirect to the leader.

        Raises ``unauthenticated``, ``forbidden`` and ``no-leader`` problems. The name of the token is noted in the
        request.
        """
        if len(segments) < 3 or segments[1] != "v1" or segments[0]:
            return None
        context = self._context
        if context.tokens:
            token = context.tokens.known(request.fields.get("authorization"))
            request.token_name = token.name
            check(token, request.method)
        elif context.hosts is not None:
            fields = request.fields
            host = fields.get("host") if "host" in fields else None
            context.hosts.check(host, fields.all("origin"), request.method)
        if context.journal.lease_holds() or segments == _ANSWERED_ANYWHERE:
            return None
        leader = await context.leader_locator.elsewhere()
        if leader is None:
            damage = context.journal.unproven
            detail = f", because the stored records could not be verified: {damage}" if damage else ""
            raise problem(Code.NO_LEADER, f"there is no leader at the moment{detail}")
        query = request.scope["query_string"].decode("ascii")
        target = request.scope["raw_path"].decode("ascii") + (f"?{query}" if query else "")
        return Response(status_code=307, headers={Header.LOCATION: leader.rstrip("/") + target})

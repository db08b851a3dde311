"""Which endpoint answers: the routes as FastAPI describes them, found by the segments of a path.

FastAPI makes the OpenAPI page of the same routes, so that the page is true. It does not run them: what it does for a
request (solving dependencies, validating what the endpoints check themselves) costs several times what they take.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi.routing import APIRoute
from starlette.responses import Response

from service.http.requests import HttpRequest

Check = Callable[[HttpRequest], Awaitable[None]]

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What answers a method at a path. It is called with the request and the path's parameters, in their order.

    ``checks`` are the dependencies of the route: each looks at the request, and raises a problem.
    """

    call: Callable[..., Awaitable[Response]]
    checks: Sequence[Check] = ()

    async def answer(self, request: HttpRequest, parameters: Sequence[str]) -> Response:
        """The answer. Raises problems."""
        for check in self.checks:
            await check(request)
        return await self.call(request, *parameters)


Endpoints = dict[str, Endpoint]
"""By method."""


@dataclass(slots=True)
class _Node:
    endpoints: Endpoints = field(default_factory=dict)
    fixed: dict[str, _Node] = field(default_factory=dict)
    named: _Node | None = None


class Routes:
    """The endpoints of all routes."""

    def __init__(self, routes: Iterable[APIRoute]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for segment in route.path.split("/"):
                if segment.startswith("{"):
                    node.named = node = node.named or _Node()
                else:
                    node = node.fixed.setdefault(segment, _Node())
            endpoint = Endpoint(route.endpoint, tuple(map(_check_of, route.dependencies)))
            node.endpoints.update(dict.fromkeys(route.methods or (), endpoint))

    def find(self, segments: Iterable[str]) -> tuple[Endpoints, list[str]]:
        """What a path takes, with the values of its parameters; nothing for a path that is not there.

        A parameter takes any segment but an empty one.
        """
        node, parameters = self._root, []
        for segment in segments:
            following = node.fixed.get(segment)
            if following is None:
                following = node.named
                if following is None or not segment:
                    return {}, []
                parameters.append(segment)
            node = following
        return node.endpoints, parameters


def allowed(endpoints: Endpoints) -> str:
    """The methods that a path takes, as the header Allow tells them."""
    return ", ".join(method for method in _METHODS if method in endpoints)


def _check_of(dependency: Any) -> Check:
    check: Check = dependency.dependency
    return check

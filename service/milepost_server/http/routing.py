"""Finds the endpoint for a request by the segments of its path, among the routes that FastAPI describes.

FastAPI generates the OpenAPI description from the same routes, so the description is accurate. FastAPI does not run the
routes, since its own work for each request (dependencies, validation) takes several times as long as the work of an
endpoint.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi.routing import APIRoute
from starlette.responses import Response

from milepost.operations import OPERATIONS
from milepost.operations.operation import RestOperation
from milepost_server.http.requests import HttpRequest

Check = Callable[[HttpRequest], Awaitable[None]]

_REST = ":path}"
"""The suffix of a path parameter that takes the whole rest of the path, in Starlette's notation."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The function that answers a method at a path; it is called with the request and the path's parameters in order.

    ``checks`` are functions that check the request first, and raise a problem if it is invalid. ``operation`` is the
    operation that the function answers; it names the right that the caller needs.
    """

    call: Callable[..., Awaitable[Response]]
    operation: RestOperation
    checks: Sequence[Check] = ()

    async def answer(self, request: HttpRequest, parameters: Sequence[str]) -> Response:
        """Run the checks, then return the endpoint's answer. A check or the endpoint may raise a `Problem`, which the
        caller answers.
        """
        for check in self.checks:
            await check(request)
        return await self.call(request, *parameters)


Endpoints = dict[str, Endpoint]
"""The endpoints at one path, by the method that they answer."""


@dataclass(slots=True)
class _Node:
    endpoints: Endpoints = field(default_factory=dict)
    fixed: dict[str, _Node] = field(default_factory=dict)
    named: _Node | None = None
    rest: Endpoints = field(default_factory=dict)


class Routes:
    """Finds endpoints by the segments of a request's path, in a tree that is made from all routes."""

    def __init__(self, routes: Iterable[APIRoute]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            methods = {method: _endpoint(route, method) for method in route.methods or ()}
            for segment in route.path.split("/"):
                if segment.endswith(_REST):
                    node.rest.update(methods)
                    methods = {}
                elif segment.startswith("{"):
                    node.named = node = node.named or _Node()
                else:
                    node = node.fixed.setdefault(segment, _Node())
            node.endpoints.update(methods)

    def find(self, segments: Sequence[str]) -> tuple[Endpoints, list[str]]:
        """Return the endpoints at a path and the values of the path's parameters; both are empty for an unknown path.

        A parameter matches one segment that is not empty, or the whole rest of the path, which may be empty.
        """
        node = self._root
        parameters: list[str] = []
        for number, segment in enumerate(segments):
            if node.rest:
                return node.rest, [*parameters, "/".join(segments[number:])]
            following = node.fixed.get(segment)
            if following is None:
                following = node.named
                if following is None or not segment:
                    return {}, []
                parameters.append(segment)
            node = following
        if node.rest and not node.endpoints:
            return node.rest, [*parameters, ""]
        return node.endpoints, parameters


def allowed(endpoints: Endpoints) -> str:
    """Return the methods that a path supports, as the value of the header Allow."""
    return ", ".join(method for method in _METHODS if method in endpoints)


def _endpoint(route: APIRoute, method: str) -> Endpoint:
    operation = OPERATIONS[f"{method} {route.path.replace(_REST, '}')}"]
    return Endpoint(route.endpoint, operation, tuple(map(_check_of, route.dependencies)))


def _check_of(dependency: Any) -> Check:
    check: Check = dependency.dependency
    return check

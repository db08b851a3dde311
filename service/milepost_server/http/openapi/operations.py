"""Ties a route to its operation: the decorators with which each route names its operation and describes its answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.operation import RestOperation
from milepost_server.http.openapi.documents import openapi_operation

Route = TypeVar("Route", bound=Callable[..., Awaitable[Response]])


def answers(
    router: APIRouter,
    operation: RestOperation,
    examples: dict[int, tuple[str, Any]],
    *,
    body: dict[str, Any] | None = None,
    elsewhere: tuple[str, Iterable[str]] = ("", ()),
) -> Callable[[Route], Route]:
    """Decorate the route of an operation of ``/v1``; the arguments are those of `openapi_operation`."""
    return plain(router, operation, **openapi_operation(operation, examples, body=body, elsewhere=elsewhere))


def plain(router: APIRouter, operation: RestOperation, **described: Any) -> Callable[[Route], Route]:
    """Decorate the route of another operation, which FastAPI describes with these arguments."""
    path = operation.path.replace("{path}", "{path:path}")

    def add(route: Route) -> Route:
        router.add_api_route(
            path,
            route,
            methods=[operation.method],
            summary=operation.summary,
            include_in_schema=operation.described,
            **described,
        )
        return route

    return add

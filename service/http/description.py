"""The OpenAPI page, made of the very routes that answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.responses import Response

from service.http.requests import Request

_DESCRIPTION = """
Milepost keeps the one fact a Spark driver needs after a crash: which checkpoint is the latest, and who may write
the next.

A **handle** is a named, versioned pointer to the bytes of a state. A **session** is a lease that acts; an **epoch**
fences the drivers of one store; an **idempotency key** makes a retry safe. Every error is a problem document with
`retryable` and `outcome`.

Whatever is not below: 404 `no-route` for another path, 405 `method-not-allowed` with `Allow` for another method, 413
`too-large` for a head of more than 64 KiB, 422 `invalid-request` for what is no HTTP, 501 `not-supported` for a
transfer coding other than chunked, 403 `forbidden` for a Host that is not this server's where it has no tokens, and
429 `too-many-requests` for a connection that there is no room for. 411 `length-required` is kept for blob stores that
need a length; none of the present ones does.
"""
_PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "retryable", "outcome"],
    "properties": {
        "type": {"type": "string", "description": "`urn:milepost:<code>`"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "retryable": {"type": "boolean"},
        "outcome": {"type": "string", "enum": ["not_applied", "applied", "unknown"]},
    },
    "additionalProperties": True,
}


class Description:
    """Describes ``routes``; made when it is first asked for."""

    def __init__(self, version: str, routes: Sequence[APIRoute]) -> None:
        self._version = version
        self._routes = routes

    @cached_property
    def page(self) -> bytes:
        """The page, in JSON."""
        schema = get_openapi(title="Milepost", version=self._version, description=_DESCRIPTION, routes=self._routes)
        schema.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM_SCHEMA
        return msgspec.json.encode(schema)

    async def answer(self, _: Request) -> Response:
        """``/openapi.json``."""
        return Response(self.page, media_type="application/json")

"""The application, made by a factory."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp

from service.http import pages, problems
from service.http.context import Context
from service.http.middleware import Envelope, Gate
from service.http.routes import around, epochs, handles, sessions, states, stores, uploads

_DESCRIPTION = """
Milepost keeps the one fact a Spark driver needs after a crash: which checkpoint is the latest, and who may write
the next.

A **handle** is a named, versioned pointer to the bytes of a state. A **session** is a lease that acts; an **epoch**
fences the drivers of one store; an **idempotency key** makes a retry safe. Every error is a problem document with
`retryable` and `outcome`.

Whatever is not below: 404 `no-route` for another path, 405 `method-not-allowed` with `Allow` for another method, 413
`too-large` for a head of more than 64 KiB, 422 `invalid-request` for what is no HTTP. 411 `length-required` is kept for
blob stores that need a length; none of the present ones does.
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


def create_app(context: Context) -> ASGIApp:
    """The ASGI application of one replica. Its backends are opened and closed by whoever made them."""
    app = FastAPI(
        title="Milepost",
        version=context.version,
        description=_DESCRIPTION,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    problems.install(app)
    for part in (handles, states, uploads, stores, sessions, epochs, around, pages):
        app.include_router(part.router)
    app.add_middleware(Gate, context=context)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return Envelope(app, context, context.replica.clock)


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schema.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM_SCHEMA
        app.openapi_schema = schema
    return app.openapi_schema

"""Every error leaves as ``application/problem+json`` with ``retryable`` and ``outcome``; no stack trace ever does."""

from __future__ import annotations

import logging
import math
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from milepost.errors import Problem
from milepost.wire import PROBLEM_MEDIA_TYPE, PROBLEM_TYPE_PREFIX, PROBLEMS, Code, Header
from service.problems import problem

log = logging.getLogger("milepost.http")

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OF_STATUS = {
    404: Code.NO_ROUTE,
    405: Code.METHOD_NOT_ALLOWED,
    406: Code.NOT_ACCEPTABLE,
    413: Code.TOO_LARGE,
    415: Code.UNSUPPORTED_MEDIA_TYPE,
    416: Code.RANGE_NOT_SATISFIABLE,
}


def problem_document(error: Problem) -> dict[str, Any]:
    """The members of the document."""
    return {
        "type": f"{PROBLEM_TYPE_PREFIX}{error.code.value}",
        "title": PROBLEMS[error.code].title,
        "status": error.status,
        "detail": error.detail,
        "retryable": error.retryable,
        "outcome": error.outcome.value,
        **error.extras,
    }


def problem_response(error: Problem, headers: dict[str, str] | None = None) -> Response:
    """The answer for a problem."""
    sent = dict(headers or {})
    if error.retry_after is not None:
        sent[Header.RETRY_AFTER] = str(math.ceil(error.retry_after))
    if error.code is Code.UNAUTHENTICATED:
        sent["WWW-Authenticate"] = "Bearer"
    body = msgspec.json.encode(problem_document(error))
    return Response(body, error.status, sent, media_type=PROBLEM_MEDIA_TYPE)


async def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    headers = {"Content-Range": f"bytes */{error.extras['size']}"} if "size" in error.extras else None
    return problem_response(error, headers)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path: str = request.scope["path"]
    if error.status_code == 404 and path.startswith("/v1/") and "" in path.split("/")[2:]:
        return problem_response(problem(Code.INVALID_NAME, "a name must not be empty"))
    code = _OF_STATUS.get(error.status_code, Code.INVALID_REQUEST if error.status_code < 500 else Code.INTERNAL)
    detail = f"{request.method} {path}" if error.status_code in (404, 405) else str(error.detail)
    headers = {"Allow": _allowed(request)} if error.status_code == 405 else dict(error.headers or {})
    return problem_response(problem(code, detail), headers)


def _allowed(request: Request) -> str:
    """Every method that the path takes; the router's own answer names those of one route only."""

    def taken(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    return ", ".join(filter(taken, _METHODS))


async def _on_validation(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ()))
    return problem_response(problem(Code.INVALID_REQUEST, f"{where}: {first.get('msg')}"))


async def _on_fault(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    return problem_response(problem(Code.INTERNAL, "see the service's log under this request's id"))


def install(app: FastAPI) -> None:
    """Make every error of the application a problem."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(Exception, _on_fault)

"""Answer every error as ``application/problem+json`` with ``retryable`` and ``outcome``, and never a stack trace."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
from starlette.responses import Response

from milepost.errors import Problem
from milepost.wire import PROBLEM_MEDIA_TYPE, PROBLEM_TYPE_PREFIX, PROBLEMS, Code, Header

ELSEWHERE: Final = frozenset({Code.NO_LEADER, Code.SHUTTING_DOWN})
"""The problems that say: ask another replica."""


def closing(error: Problem) -> dict[str, str]:
    """Return the header that ends the connection, if ``error`` says to ask another replica; else none.

    Behind a Service of Kubernetes, or another forwarder of TCP, a new connection is the way to another replica: a
    client that kept this one would ask the same replica for ever.
    """
    return {"Connection": "close"} if error.code in ELSEWHERE else {}


def problem_document(error: Problem) -> dict[str, Any]:
    """Return the members of the problem document for an error."""
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
    """Return the answer for a problem, with ``headers`` added."""
    sent = {**(headers or {}), **closing(error)}
    if "size" in error.extras:
        sent["Content-Range"] = f"bytes */{error.extras['size']}"
    if error.retry_after is not None:
        sent[Header.RETRY_AFTER] = str(math.ceil(error.retry_after))
    if error.code is Code.UNAUTHENTICATED:
        sent["WWW-Authenticate"] = "Bearer"
    body = msgspec.json.encode(problem_document(error))
    return Response(body, error.status, sent, media_type=PROBLEM_MEDIA_TYPE)

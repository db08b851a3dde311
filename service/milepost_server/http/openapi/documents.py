"""Decorators that connect a route to its operation, and the OpenAPI texts of headers, answers and problems, which all
routes share.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from fastapi import APIRouter, Depends
from starlette.responses import Response

from milepost.operations.operation import RestOperation
from milepost.wire import (
    MAX_ACT_LENGTH,
    MAX_LABELS_LENGTH,
    MAX_PAGE,
    PROBLEM_MEDIA_TYPE,
    PROBLEM_TYPE_PREFIX,
    PROBLEMS,
    Code,
    Header,
)
from milepost_server.http.bodies import no_fields
from milepost_server.http.openapi.schemas import NAME_SCHEMA, TAG_PATTERN

Route = TypeVar("Route", bound=Callable[..., Awaitable[Response]])

HANDLE_EXAMPLE: dict[str, Any] = {
    "name": "latest",
    "version": "5f0c1e9ab3d2.42",
    "size": 5,
    "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    "created": "2026-01-31T12:00:00.000Z",
    "updated": "2026-01-31T12:00:00.000Z",
    "labels": {"batch": "7"},
    "locks": ["flights-driver-1"],
    "epoch": 3,
    "removing": False,
}
ANNOUNCEMENT: dict[str, Any] = {
    "size": {"type": "integer", "minimum": 0},
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}
ANNOUNCEMENT_EXAMPLE = {"size": HANDLE_EXAMPLE["size"], "sha256": HANDLE_EXAMPLE["sha256"]}
CORRUPT_EXAMPLE = {"name": "damaged", "reason": "JSON is malformed: invalid character (byte 0)"}
EPOCH_EXAMPLE = {
    "epoch": 3,
    "session": "flights-driver-1",
    "holder": "flights-driver",
    "since": "2026-01-31T12:00:00.000Z",
}
PROCESS_EXAMPLE = {
    "host": "spark-1",
    "pid": 4711,
    "application": "app-20260101115900-0007",
    "ui": "http://spark-1:4040",
}
WISH_EXAMPLE = {
    "kind": "stop",
    "epoch": 3,
    "at": "2026-01-31T12:10:00.000Z",
    "by": "operators",
    "who": "anna@laptop",
    "reason": "new release",
    "savepoint": "before-release-7",
}

_REQUEST_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    Header.SESSION: ("The session for which the request is made.", NAME_SCHEMA),
    Header.EPOCH: ("The driver's fencing token.", {"type": "integer", "minimum": 1}),
    Header.IDEMPOTENCY_KEY: (
        "A retry with the same key and request gets the first answer again; scope: session and store, ten minutes.",
        {"type": "string", "minLength": 1, "maxLength": 64, "pattern": r"^[\x21-\x7e]{1,64}$"},
    ),
    Header.ATTEMPT: ("With an idempotency key: the number of this attempt.", {"type": "integer", "minimum": 1}),
    Header.CONTENT_DIGEST: ("`sha-256=:BASE64:` (RFC 9530); checked before the pointer moves.", {"type": "string"}),
    Header.LABELS: (
        "The labels: a JSON object of strings, in ASCII.",
        {"type": "string", "maxLength": MAX_LABELS_LENGTH, "example": '{"batch": "7"}'},
    ),
    Header.ACT: (
        "What the change does to the job, for its history: JSON with `kind`, and with whole numbers as that needs.",
        {"type": "string", "maxLength": MAX_ACT_LENGTH, "example": '{"kind": "expired", "batch": 41}'},
    ),
    Header.IF_MATCH: (
        "One quoted version; no list, no weak tag, no `*`.",
        {"type": "string", "pattern": TAG_PATTERN},
    ),
    Header.IF_NONE_MATCH: ("`*`: nothing may be there.", {"type": "string", "enum": ["*"]}),
    "Range": ("One range of bytes.", {"type": "string"}),
    "Last-Event-ID": ("Resume after the event with this id; counts before `after`.", {"type": "string"}),
    Header.REQUEST_ID: (
        "An id of this request, which answer and log repeat; the server makes one if absent.",
        {"type": "string"},
    ),
}
_ANSWER_HEADERS: dict[str, str] = {
    Header.ETAG: "The quoted version of the handle.",
    Header.REVISION: "The revision that the answer reflects; it only rises, with gaps.",
    Header.TERM: "The term of the leader that answered.",
    Header.REQUEST_ID: "The id of this request.",
    Header.REPLAYED: "`true` if this repeats the first answer to the same idempotency key.",
    Header.OUTCOME: "`unknown` if the write may have been applied all the same; else absent, and it was not.",
    Header.REPR_DIGEST: "The SHA-256 of the whole state.",
    Header.LAST_MODIFIED: "When the file came, by the service's clock.",
    Header.RETRY_AFTER: "Seconds to wait before the next attempt.",
    Header.LOCATION: "The same path at the leader, or a signed URL to the bytes of the state.",
    "Content-Range": "The range of bytes that follows, or the size of the state if none does.",
    "Accept-Ranges": "`bytes`.",
    "WWW-Authenticate": "`Bearer`.",
    "Cache-Control": "`no-store`, since an earlier answer about a pointer may be wrong by now.",
}
ALWAYS = (Header.TERM, Header.REQUEST_ID, "Cache-Control")
"""The headers that every answer has."""

_OF_STATUS = {
    206: ("Content-Range",),
    401: ("WWW-Authenticate",),
    416: ("Content-Range",),
    429: (Header.RETRY_AFTER,),
    503: (Header.RETRY_AFTER,),
}
"""The headers that answers with a certain status have, whatever the call."""

_QUERY: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
    "redirect": {"type": "boolean"},
    "directory": {"type": "boolean"},
    "recursive": {"type": "boolean"},
    "file": {"type": "boolean"},
    "size": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**63 - 1},
    "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "version": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**63 - 1},
}
"""The schemas of query parameters that are not text."""


def answers(
    router: APIRouter,
    operation: RestOperation,
    examples: dict[int, tuple[str, Any]],
    *,
    body: dict[str, Any] | None = None,
    elsewhere: tuple[str, Iterable[str]] = ("", ()),
) -> Callable[[Route], Route]:
    """Return a decorator that adds the route of an operation of ``/v1`` to ``router``. The other arguments describe the
    operation as in `openapi_operation`.
    """
    return plain(router, operation, **openapi_operation(operation, examples, body=body, elsewhere=elsewhere))


def plain(router: APIRouter, operation: RestOperation, **described: Any) -> Callable[[Route], Route]:
    """Return a decorator that adds the route of an operation to ``router``. ``described`` are the arguments with which
    FastAPI describes the route. For operations of ``/v1`` see `answers`.
    """
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


def openapi_operation(
    operation: RestOperation,
    examples: dict[int, tuple[str, Any]],
    *,
    body: dict[str, Any] | None = None,
    elsewhere: tuple[str, Iterable[str]] = ("", ()),
) -> dict[str, Any]:
    """Return the arguments with which FastAPI describes an operation: its answers, problems, headers and body.

    ``examples`` has a text and an example for each status of success. ``body`` describes the JSON body; without it, the
    operation refuses any body that is not empty. The status 307 redirects to the leader; if it may have another target,
    ``elsewhere`` has a text about that target, and the names of the headers of such a redirect.

    Raises `ValueError` if the statuses in ``examples`` are not those of the operation.
    """
    if set(examples) != set(operation.success):
        raise ValueError(f"{operation.id} succeeds with {operation.success}, and the examples are of {[*examples]}")
    always = [*ALWAYS, *([Header.REVISION] if operation.of_store else [])]
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "headers": answer_headers(status, [*operation.gives, *always]), **_content(shown)}
        for status, (text, shown) in examples.items()
    }
    if operation.by_leader:
        text, also = elsewhere
        redirected = answer_headers(307, [Header.LOCATION, *also, *ALWAYS])
        responses[307] = {"description": f"Redirects to the leader{text}.", "headers": redirected}
    for status, group in sorted(_by_status(operation.codes).items()):
        responses[status] = _problem_response(status, group, always)
    needed = {Header.SESSION, *([Header.IF_MATCH] if Code.PRECONDITION_REQUIRED in operation.codes else [])}
    parameters = [_parameter(name, name in needed) for name in (*operation.takes, Header.REQUEST_ID)]
    parameters += [
        {**_query_parameter(name, text), **({"required": True} if name in operation.needs else {})}
        for name, text in operation.query.items()
    ]
    extra: dict[str, Any] = {"parameters": parameters}
    arguments = {"responses": responses, "openapi_extra": extra, "status_code": next(iter(examples))}
    if body is None:
        return {**arguments, "dependencies": [Depends(no_fields)]}
    extra["requestBody"] = body
    return arguments


def probe_operation(yes: str, no: str | None = None, **query: str) -> dict[str, Any]:
    """Return the arguments with which FastAPI describes a probe: a call that each replica answers for itself in plain
    text.

    ``yes`` describes the answer 200, and ``no`` the answer 503, if there is one. ``query`` describes each query
    parameter, which may be sent without a value.
    """
    texts = {200: yes} if no is None else {200: yes, 503: no}
    responses = {
        status: {
            "description": text,
            "headers": _described_headers(ALWAYS),
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
        for status, text in texts.items()
    }
    parameters = [_parameter(Header.REQUEST_ID, False)]
    parameters += [{**_query_parameter(name, text), "allowEmptyValue": True} for name, text in query.items()]
    return {"responses": responses, "response_class": Response, "openapi_extra": {"parameters": parameters}}


def json_body(example: dict[str, Any], properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """Return the OpenAPI description of a request's JSON body, an object with these properties."""
    schema = json_schema(properties, required)
    return {"required": bool(required), "content": {"application/json": {"schema": schema, "example": example}}}


def json_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """Return the schema of a JSON object that has these properties and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def seconds(least: float, most: float) -> dict[str, Any]:
    """Return the schema of a duration from ``least`` to ``most`` seconds. It has the format ``double``, without which a
    generated client might use single precision.
    """
    return {"type": "number", "format": "double", "minimum": least, "maximum": most}


def request_id() -> dict[str, Any]:
    """Return the OpenAPI description of the request header that carries the request's id; every call accepts it."""
    return _parameter(Header.REQUEST_ID, False)


def _by_status(codes: Iterable[Code]) -> dict[int, list[Code]]:
    found: dict[int, list[Code]] = {}
    for code in sorted(codes, key=lambda code: code.value):
        found.setdefault(PROBLEMS[code].status, []).append(code)
    return found


def _problem_response(status: int, codes: list[Code], always: list[str]) -> dict[str, Any]:
    examples = {
        code.value: {
            "value": {
                "type": PROBLEM_TYPE_PREFIX + code.value,
                "title": PROBLEMS[code].title,
                "status": status,
                "detail": PROBLEMS[code].title,
                "retryable": PROBLEMS[code].retryable,
                "outcome": PROBLEMS[code].outcome.value,
            }
        }
        for code in codes
    }
    return {
        "description": " · ".join(f"`{code.value}`: {PROBLEMS[code].title}" for code in codes),
        "headers": answer_headers(status, always),
        "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": examples}},
    }


def answer_headers(status: int, names: Iterable[str]) -> dict[str, Any]:
    """Return the OpenAPI descriptions of the headers of an answer: of those in ``names``, and of those that every
    answer with this status has.
    """
    return _described_headers([*names, *_OF_STATUS.get(status, ())])


def _described_headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"description": _ANSWER_HEADERS[name], "schema": {"type": "string"}} for name in names}


def _parameter(name: str, required: bool) -> dict[str, Any]:
    text, schema = _REQUEST_HEADERS[name]
    return {"name": name, "in": "header", "required": required, "description": text, "schema": schema}


def _query_parameter(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": _QUERY.get(name, {"type": "string"})}


def _content(example: Any) -> dict[str, Any]:
    if example is None:
        return {}
    if isinstance(example, bytes):
        return {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
    if isinstance(example, str):
        return {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": example}}}
    return {"content": {"application/json": {"schema": {"type": "object"}, "example": example}}}

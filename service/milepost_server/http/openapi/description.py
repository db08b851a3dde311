"""Makes the OpenAPI description from the routes that answer requests, and shows it as a page at ``/docs``.

This server serves the script and the style of the page, since a cluster may not reach the internet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from typing import Any

import msgspec
from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.responses import Response

from milepost.operations import OPERATIONS
from milepost.operations.operation import RestOperation
from milepost.operations.replicas import API_PAGE, API_PAGE_FILE
from milepost.wire import PROBLEM_MEDIA_TYPE, Code
from milepost_server.basics.problems import problem
from milepost_server.http.openapi.documents import plain
from milepost_server.http.openapi.schemas import (
    NAME_SCHEMA,
    OPENAPI_VERSION,
    SCHEMAS,
    SECURED,
    SECURITY_SCHEMES,
)
from milepost_server.http.requests import HttpRequest

router = APIRouter()

_FILES = {
    "swagger-ui-bundle.js": "application/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
_A_DAY = {"Cache-Control": "public, max-age=86400"}

_DESCRIPTION = """
Milepost keeps the one fact a Spark driver needs after a crash: which checkpoint is the latest, and who may write
the next.

A **handle** is a named, versioned pointer to the bytes of a state. A **session** is a lease that acts; an **epoch**
fences the drivers of one store; an **idempotency key** makes a retry safe. Every error is a problem document with
`retryable` and `outcome`.

The **files** of jobs are answered in two ways. `/v1/stores/flights/files/a` is the file `a` of the store `flights` like
the rest of this page, and needs no session. `/webhdfs/v1/jobs/flights/a` is the same file, as Hadoop's WebHDFS has it:
`/` in `path` stands for itself, and a write carries its epoch in the name of a header,
`X-Milepost-<store>-<epoch>` (or an escaped form without `_` and `.`), or in its token. The JSON that these calls
answer has no Content-Type. `/oauth2/token` gives the tokens.

Answers that do not depend on the call: 404 `no-route` for an unknown path, 405 `method-not-allowed` with `Allow` for
another method, 413 `too-large` for a head of more than 64 KiB, 422 `invalid-request` for what is not HTTP, 501
`not-supported` for a transfer coding other than chunked, 403 `forbidden` for a Host that is not this server's if it has
no tokens, 503 `storage-unavailable` and 429 `too-many-requests` where the token of a ServiceAccount cannot be looked
up, and 429 `too-many-requests` for a connection for which there is no room. 411 `length-required` is reserved for blob
stores that need a length; none of the current ones does.
"""


class Description:
    """The OpenAPI description of ``routes``. It is generated when a client first requests it."""

    def __init__(self, version: str, routes: Sequence[APIRoute]) -> None:
        self._version = version
        self._routes = routes

    @cached_property
    def page(self) -> bytes:
        """The description as JSON text."""
        page = get_openapi(
            title="Milepost",
            version=self._version,
            openapi_version=OPENAPI_VERSION,
            description=_DESCRIPTION,
            routes=self._routes,
        )
        page["components"] = {"schemas": SCHEMAS, "securitySchemes": SECURITY_SCHEMES}
        for path, operations in page["paths"].items():
            for method, operation in operations.items():
                _complete(operation, path, OPERATIONS[f"{method.upper()} {path}"])
        return msgspec.json.encode(page)

    async def answer(self, _: HttpRequest) -> Response:
        """Answer ``GET /openapi.json``."""
        return Response(self.page, media_type="application/json")


def _complete(operation: dict[str, Any], path: str, known: RestOperation) -> None:
    """Add to the description of an operation the parts that FastAPI does not know: its id, the schemas of its answers,
    its security, and the patterns of names.
    """
    operation["operationId"] = known.id
    if path.startswith(("/v1/", "/webhdfs/")):
        operation["security"] = SECURED
    for parameter in operation["parameters"]:
        if parameter["in"] == "path" and parameter["name"] != "path":
            parameter["schema"] = NAME_SCHEMA
    if PROBLEM_MEDIA_TYPE not in operation["responses"].get("422", {}).get("content", {}):
        # remove the 422 that FastAPI describes for its own validation, which this server does not use
        operation["responses"].pop("422", None)
    for status, response in operation["responses"].items():
        content = response.get("content", {})
        if status.startswith("2") and "application/json" in content:
            if known.answer is None:  # FastAPI describes every answer as JSON, also those that are not
                del content["application/json"]
            else:
                content["application/json"]["schema"] = {"$ref": f"#/components/schemas/{known.answer}"}
        if not content:
            response.pop("content", None)


@plain(router, API_PAGE)
async def api_page(_: HttpRequest) -> Response:
    """Answer with the API page, which reads ``/openapi.json``."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Milepost",
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="docs/favicon-32x32.png",
        swagger_ui_parameters={"docExpansion": "list", "defaultModelsExpandDepth": 0},
    )


@plain(router, API_PAGE_FILE)
async def api_page_file(request: HttpRequest, name: str) -> Response:
    """Answer with one of the files that the API page needs."""
    media_type = _FILES.get(name)
    if media_type is None:
        raise problem(Code.NO_ROUTE, f"GET {request.scope['path']}")
    data = resources.files("fastapi_swagger.resources").joinpath(name).read_bytes()
    return Response(data, headers=_A_DAY, media_type=media_type)

"""The API page at ``/docs``. This server serves its script and style, since a cluster may not reach the internet."""

from __future__ import annotations

from importlib import resources

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import Response

from milepost.operations.replicas import API_PAGE, API_PAGE_FILE
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.openapi.operations import plain
from milepost_server.http.requests import HttpRequest

router = APIRouter()

_FILES = {
    "swagger-ui-bundle.js": "application/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
_A_DAY = {"Cache-Control": "public, max-age=86400"}


@plain(router, API_PAGE)
async def page(_: HttpRequest) -> Response:
    """Answer with the page, which reads ``/openapi.json``."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Milepost",
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="docs/favicon-32x32.png",
        swagger_ui_parameters={"docExpansion": "list", "defaultModelsExpandDepth": 0},
    )


@plain(router, API_PAGE_FILE)
async def file(request: HttpRequest, name: str) -> Response:
    """Answer with one of the files that the page needs."""
    media_type = _FILES.get(name)
    if media_type is None:
        raise problem(Code.NO_ROUTE, f"GET {request.scope['path']}")
    data = resources.files("fastapi_swagger.resources").joinpath(name).read_bytes()
    return Response(data, headers=_A_DAY, media_type=media_type)

"""Serves the page at ``/`` and its files. These files contain no data, so they are served without a token. In the
browser, the page requests its data from the API like any other client.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.replicas import PAGE, PAGE_FILE
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.openapi.documents import plain
from milepost_server.http.requests import HttpRequest

router = APIRouter()

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_INDEX = "index.html"

HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
"""Headers with rules for the browser: load nothing from other servers, never treat text as markup, and let no other
page embed this page.
"""


@plain(router, PAGE)
async def index(_: HttpRequest) -> Response:
    """Answer with the HTML of the page."""
    return _answer(_INDEX)


@plain(router, PAGE_FILE)
async def file(request: HttpRequest, name: str) -> Response:
    """Answer with one of the page's files."""
    if name not in _files() or name == _INDEX:
        raise problem(Code.NO_ROUTE, f"GET {request.scope['path']}")
    return _answer(name)


def _answer(name: str) -> Response:
    ending = name[name.rindex(".") :]
    return Response(_files()[name], headers=HEADERS, media_type=_TYPES[ending])


@cache
def _files() -> dict[str, bytes]:
    """Return the contents of the page's files by name. They are read from the disk once."""
    static = resources.files("milepost_server.http.page").joinpath("static")
    return {each.name: each.read_bytes() for each in static.iterdir()}

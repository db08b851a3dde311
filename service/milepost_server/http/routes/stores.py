"""The routes of ``/v1/stores``, and of the watch on a store, which is not implemented yet."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import LIST_STORES, WATCH_STORE
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import may_read
from milepost_server.http.headers import accepts, checked_name
from milepost_server.http.openapi.documents import EPOCH_EXAMPLE
from milepost_server.http.openapi.operations import answers
from milepost_server.http.queries import page_of, to_token
from milepost_server.http.replies import about, json_response
from milepost_server.http.requests import HttpRequest

router = APIRouter(tags=["stores"])


@answers(
    router,
    LIST_STORES,
    {
        200: (
            "A page, by name.",
            {
                "stores": [
                    {
                        "store": "flights",
                        "handles": 4,
                        "revision": 42,
                        **EPOCH_EXAMPLE,
                        "snapshot": {"directory": "checkpoint", "batch": 7, "revision": 41},
                        "damaged": 0,
                    }
                ],
                "next": "ZmxpZ2h0cw",
            },
        )
    },
)
async def list_stores(request: HttpRequest) -> Response:
    """Return a page of the stores that the client may read. A store exists from its first change on."""
    accepts(request, "application/json")
    page = await request.operations.stores.list_page(*page_of(request, LIST_STORES), partial(may_read, request))
    return json_response({"stores": page.stores, "next": to_token(page.next)}, 200, about(None, page.term))


@answers(router, WATCH_STORE, {200: ("Server-sent events.", "id: 42\nevent: added\ndata: {}\n\n")})
async def watch(_: HttpRequest, store: str) -> Response:
    """Answer 501: watching a store is not implemented yet."""
    checked_name(store, "store")
    raise problem(Code.NOT_SUPPORTED, "watching a store is not implemented yet")

"""The routes of ``/v1/stores``, and of the watch on a store, which is not implemented yet."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import may_read
from milepost_server.http.headers import accepts, checked_name
from milepost_server.http.openapi.documents import EPOCH_EXAMPLE, PAGED, openapi_operation
from milepost_server.http.queries import page_of, to_token
from milepost_server.http.replies import about, json_response
from milepost_server.http.requests import HttpRequest

router = APIRouter(prefix="/v1/stores", tags=["stores"])


@router.get(
    "",
    summary="The stores that exist",
    **openapi_operation(
        success={
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
        codes=[Code.INVALID_REQUEST, Code.NOT_ACCEPTABLE],
        query=PAGED,
        store=False,
    ),
)
async def list_stores(request: HttpRequest) -> Response:
    """Return a page of the stores that the client may read. A store exists from its first change on."""
    accepts(request, "application/json")
    page = await request.operations.stores.list_page(*page_of(request), partial(may_read, request))
    return json_response({"stores": page.stores, "next": to_token(page.next)}, 200, about(None, page.term))


@router.get(
    "/{store}/events",
    summary="Watch a store",
    **openapi_operation(
        success={200: ("Server-sent events.", "id: 42\nevent: added\ndata: {}\n\n")},
        codes=[Code.NOT_SUPPORTED, Code.COMPACTED],
        headers=["Last-Event-ID"],
        query={"after": "Resume behind this revision."},
    ),
)
async def watch(_: HttpRequest, store: str) -> Response:
    """Answer 501: watching a store is not implemented yet."""
    checked_name(store, "store")
    raise problem(Code.NOT_SUPPORTED, "watching a store is not implemented yet")

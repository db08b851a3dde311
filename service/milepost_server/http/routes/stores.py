"""The routes of ``/v1/stores``, and of the epoch of a store."""

from __future__ import annotations

import asyncio
import math
from functools import partial

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import CAMPAIGN, GET_EPOCH, LIST_STORES, RESIGN
from milepost.wire import MAX_WAIT_SECONDS, Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import may_read
from milepost_server.http.bodies import json_of
from milepost_server.http.connection.exchange import exchange_of
from milepost_server.http.headers import accepts, caller, checked_name
from milepost_server.http.openapi.documents import EPOCH_EXAMPLE, WISH_EXAMPLE, answers, json_body, seconds
from milepost_server.http.queries import page_of, to_token
from milepost_server.http.replies import about, empty_reply, json_reply, json_response
from milepost_server.http.requests import HttpRequest
from milepost_server.model.requests.handles import Resign

router = APIRouter(tags=["stores"])
epochs = APIRouter(tags=["epochs"])


class CampaignBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a request for the epoch."""

    wait: float = 0.0
    if_stopped: bool = False


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


@answers(
    epochs,
    CAMPAIGN,
    {200: ("Granted; the holder gets the same answer again.", EPOCH_EXAMPLE)},
    body=json_body({"wait": 30}, {"wait": seconds(0, MAX_WAIT_SECONDS), "if_stopped": {"type": "boolean"}}, []),
)
async def campaign(request: HttpRequest, store: str) -> Response:
    """Ask for the next epoch, waiting up to `wait` seconds while another session holds the current one, or while a
    person has stopped the job. With `if_stopped`, the epoch of a stopped job is granted, too; the job stays stopped.

    A waiting caller is granted the epoch only while its session is kept alive, that is, renewed within the last half of
    its TTL. The wait ends when the caller closes the connection, or its sending side.
    """
    checked_name(store, "store")
    body = await json_of(request, CampaignBody, optional=True)
    if not math.isfinite(body.wait) or not 0 <= body.wait <= MAX_WAIT_SECONDS:
        raise problem(Code.INVALID_REQUEST, f"wait takes 0 to {MAX_WAIT_SECONDS} seconds")
    acting = caller(request)
    gone = asyncio.create_task(exchange_of(request.scope).hung_up()) if body.wait else None
    try:
        return json_reply(
            await request.operations.epochs.campaign(acting, store, body.wait, gone, if_stopped=body.if_stopped)
        )
    finally:
        if gone is not None:
            gone.cancel()


@answers(
    epochs,
    GET_EPOCH,
    {200: ("The epoch; 0 and nulls where there never was one.", {**EPOCH_EXAMPLE, "wish": WISH_EXAMPLE})},
)
async def current_epoch(request: HttpRequest, store: str) -> Response:
    """Return the current epoch of a store, the session that holds it, and what a person wishes of its driver."""
    checked_name(store, "store")
    accepts(request, "application/json")
    return json_reply(request.operations.epochs.current(store))


@answers(epochs, RESIGN, {204: ("The epoch is free to campaign for.", None)})
async def resign(request: HttpRequest, store: str) -> Response:
    """Resign the epoch. Its number stays the current one until the next is granted."""
    checked_name(store, "store")
    return empty_reply(await request.operations.perform(Resign(caller(request).attempt, store)))

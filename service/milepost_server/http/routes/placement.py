"""The routes of ``/v1/jobs`` by which a client finds the cell of a job."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import GET_PLACEMENT, PLACE_JOB
from milepost_server.http.bodies import json_of
from milepost_server.http.headers import accepts, caller_without_session, checked_name
from milepost_server.http.openapi.documents import answers, json_body
from milepost_server.http.replies import json_reply
from milepost_server.http.requests import HttpRequest
from milepost_server.model.requests.handles import PlaceJob

router = APIRouter(tags=["jobs"])

_PLACEMENT = {
    "job": "flights",
    "cell": "b",
    "cells": ["a", "b"],
    "placement": "here",
    "other": None,
    "epoch": None,
    "seal": None,
}
_DIGEST = {"type": "string", "minLength": 1, "maxLength": 64}


class PlaceBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a request to begin a job in a cell."""

    cells: str


@answers(router, GET_PLACEMENT, {200: ("What this cell knows of the job.", _PLACEMENT)})
async def placement(request: HttpRequest, store: str) -> Response:
    """Return whether this cell has a job: `here`, or `none` if it never knew the job. It is `moved` if the job was
    moved to the cell `other` under the epoch `epoch`, and `arriving` while it is being moved from the cell `other`.
    `seal` proves to the other cell that the job was moved.

    `cell` is the name of this cell, null if the deployment is no cell, and `cells` is its list of all cells. A client
    may begin a job only if every cell of its own list answers `none`, with that same list.
    """
    checked_name(store, "store")
    accepts(request, "application/json")
    return json_reply(request.operations.placement.placement(store))


@answers(
    router,
    PLACE_JOB,
    {200: ("The job is in this cell.", _PLACEMENT)},
    body=json_body({"cells": "fa5c1d4f2c9b0e37"}, {"cells": _DIGEST}, ["cells"]),
)
async def place(request: HttpRequest, store: str) -> Response:
    """Begin a job in this cell. Nothing changes if it is there.

    `cells` is the digest of the client's list of cells: the first 16 hexadecimal digits of the SHA-256 of their sorted
    names, with commas in between. Refused if that is not the digest of this cell's own list, or if the deployment is no
    cell.
    """
    checked_name(store, "store")
    accepts(request, "application/json")
    body = await json_of(request, PlaceBody)
    attempt = caller_without_session(request).attempt
    return json_reply(await request.operations.placement.after(PlaceJob(attempt, store, body.cells)))

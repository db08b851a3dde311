"""The route of ``/v1/jobs``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import GET_JOB
from milepost_server.http.headers import accepts, checked_name
from milepost_server.http.openapi.documents import EPOCH_EXAMPLE, answers
from milepost_server.http.replies import json_reply
from milepost_server.http.requests import HttpRequest

router = APIRouter(tags=["jobs"])

_STANDBY = {
    "session": "flights-driver-2",
    "holder": "local-1@spark-2:4711",
    "since": "2026-01-01T11:58:00.000Z",
    "expires_in": 12.5,
}
_SNAPSHOT = {
    "directory": "checkpoint",
    "batch": 7,
    "revision": 42,
    "taken": "2026-01-01T12:00:00.000Z",
    "epoch": 3,
}


@answers(
    router,
    GET_JOB,
    {
        200: (
            "The job.",
            {
                "job": "flights",
                "state": "led",
                **EPOCH_EXAMPLE,
                "expires_in": 12.5,
                "standbys": [_STANDBY],
                "standbyCount": 1,
                "snapshots": [_SNAPSHOT],
                "savepoints": [{"name": "before-upgrade", **_SNAPSHOT}],
                "passedOver": [{**_SNAPSHOT, "batch": 8, "revision": 45}],
                "handles": 4,
                "damaged": 0,
            },
        )
    },
)
async def describe(request: HttpRequest, store: str) -> Response:
    """Return a job as a whole: the driver that leads it, those that stand by, and its snapshots.

    `state` is `led` while a driver holds the epoch, `lost` if its session ended before the driver resigned, `resigned`
    if it resigned, and `new` if no driver ever led. At most 100 standbys are named; `standbyCount` counts them all.
    `expires_in` of the job is that of the session that leads, null if none does.
    """
    checked_name(store, "store")
    accepts(request, "application/json")
    return json_reply(await request.operations.jobs.describe(store))

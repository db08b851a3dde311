"""The routes of ``/v1/jobs``."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import DROP_JOB, GET_JOB, LIST_JOBS, REPORT_ROWS
from milepost.wire import MAX_ROWS
from milepost_server.http.access.permission import may_read
from milepost_server.http.bodies import Size, json_of
from milepost_server.http.headers import accepts, caller, checked_name
from milepost_server.http.openapi.documents import EPOCH_EXAMPLE, PROCESS_EXAMPLE, WISH_EXAMPLE, answers, json_body
from milepost_server.http.queries import flag, page_of, to_token
from milepost_server.http.replies import about, json_reply, json_response
from milepost_server.http.requests import HttpRequest
from milepost_server.model.requests.handles import ReportRows

router = APIRouter(tags=["jobs"])

_STANDBY = {
    "session": "flights-driver-2",
    "holder": "local-1@spark-2:4711",
    "process": {**PROCESS_EXAMPLE, "host": "spark-2", "ui": "http://spark-2:4040"},
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


_BATCH = {"directory": "checkpoint", "batch": 7, "revision": 42, "taken": "2026-01-01T12:00:00.000Z"}


@answers(
    router,
    LIST_JOBS,
    {
        200: (
            "A page, by name.",
            {
                "jobs": [
                    {
                        "job": "flights",
                        "state": "stopping",
                        **EPOCH_EXAMPLE,
                        "standbyCount": 1,
                        "batch": _BATCH,
                        "oldest": {**_BATCH, "batch": 0, "revision": 21, "taken": "2026-01-01T11:53:00.000Z"},
                        "damaged": 0,
                        "wish": WISH_EXAMPLE,
                    }
                ],
                "next": "ZmxpZ2h0cw",
                "now": "2026-01-01T12:00:07.000Z",
            },
        )
    },
)
async def list_jobs(request: HttpRequest) -> Response:
    """Return a page of the jobs that the client may read: the stores with an epoch or a snapshot of their files. With
    `dropped=true`, it has the jobs that were dropped, and did not begin anew, in place of these.

    `state` is as in the description of one job, or `damaged` if the store's own record cannot be read, and so is
    `wish`. `batch` is the
    snapshot of the last batch, `oldest` the oldest that is kept of the same query, and `now` the time of the service.
    """
    accepts(request, "application/json")
    dropped = flag(request, "dropped")
    asked = page_of(request, LIST_JOBS)
    page = await request.operations.jobs.list_page(*asked, partial(may_read, request), dropped=dropped)
    body = {"jobs": page.jobs, "next": to_token(page.next), "now": page.now}
    return json_response(body, 200, about(None, page.term))


@answers(
    router,
    GET_JOB,
    {
        200: (
            "The job.",
            {
                "job": "flights",
                "state": "stopping",
                **EPOCH_EXAMPLE,
                "wish": WISH_EXAMPLE,
                "process": PROCESS_EXAMPLE,
                "expires_in": 12.5,
                "standbys": [_STANDBY],
                "standbyCount": 1,
                "snapshots": [_SNAPSHOT],
                "savepoints": [{"name": "before-upgrade", **_SNAPSHOT}],
                "passedOver": [{**_SNAPSHOT, "batch": 8, "revision": 45}],
                "begun": [{"directory": "checkpoint", "batch": 9, "epoch": 3, "since": "2026-01-01T12:00:06.000Z"}],
                "handles": 4,
                "damaged": 0,
                "now": "2026-01-01T12:00:07.000Z",
            },
        )
    },
)
async def describe(request: HttpRequest, store: str) -> Response:
    """Return a job as a whole: the driver that leads it, those that stand by, and its snapshots.

    `state` is `led` while a driver holds the epoch, `stopping` once a person has asked it to stop, and `stopped` from
    the end of that epoch until the job is started. Otherwise it is `lost` if the driver's session ended before the
    driver resigned, `resigned` if it resigned, and `new` if no driver ever led; it is `dropped` if the job was dropped
    and did not begin anew. `wish` is what a person asked of the driver, null if nothing is asked. `process` is what a
    client said of the process that holds its session, null if it said nothing. At most 100 standbys are named;
    `standbyCount` counts them all. `expires_in` of the job is that of the session that leads, null if none does. `now`
    is the time of the service. `begun` has of each query the batch whose offsets are stored, and that is not committed.
    """
    checked_name(store, "store")
    accepts(request, "application/json")
    return json_reply(await request.operations.jobs.describe(store))


@answers(router, DROP_JOB, {200: ("How many handles and snapshots it had.", {"handles": 4, "snapshots": 10})})
async def drop(request: HttpRequest, store: str) -> Response:
    """Drop a job, in one commit: all handles, files, snapshots and savepoints of its store. The session must hold the
    epoch.

    The history stays, and so does the number of the epoch: the next one is greater, so that a late driver of the
    dropped job is fenced. The bytes are deleted in the background.
    """
    checked_name(store, "store")
    return json_reply(await request.operations.dropping.drop(caller(request), store))


class BatchRows(msgspec.Struct, forbid_unknown_fields=True):
    """The number of input rows of a batch."""

    batch: Size
    input_rows: Size


class RowsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that reports the rows of batches of one query."""

    directory: str
    batches: Annotated[list[BatchRows], msgspec.Meta(max_length=MAX_ROWS)]


_NUMBER: dict[str, Any] = {"type": "integer", "format": "int64", "minimum": 0}
_BATCH_ROWS: dict[str, Any] = {
    "type": "object",
    "properties": {"batch": _NUMBER, "input_rows": _NUMBER},
    "required": ["batch", "input_rows"],
    "additionalProperties": False,
}


@answers(
    router,
    REPORT_ROWS,
    {200: ("How many entries of the history now have their rows because of this request.", {"entered": 1})},
    body=json_body(
        {"directory": "checkpoint", "batches": [{"batch": 7, "input_rows": 1200}]},
        {
            "directory": {"type": "string"},
            "batches": {"type": "array", "maxItems": MAX_ROWS, "items": _BATCH_ROWS},
        },
        ["directory", "batches"],
    ),
)
async def report_rows(request: HttpRequest, store: str) -> Response:
    """Say how many input rows batches had that were committed under the epoch: their entries in the history get it.

    An entry that has its rows keeps them, and a batch without an entry is passed over, so a repeated request changes
    nothing.
    """
    checked_name(store, "store")
    acting = caller(request)
    body = await json_of(request, RowsBody)
    rows = {each.batch: each.input_rows for each in body.batches}
    asked = ReportRows(acting.attempt, store, acting.epoch, body.directory, rows)
    return json_reply(await request.operations.perform(asked))

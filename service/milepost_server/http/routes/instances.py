"""The routes of ``/v1/stores/{store}/instances``: which executor has which state store of a job loaded."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.state import (
    DEACTIVATE_INSTANCES,
    GET_LAGGING_INSTANCES,
    LIST_INSTANCES,
    LOCATE_INSTANCES,
    NOTE_SNAPSHOTS,
    REPORT_INSTANCES,
    VERIFY_INSTANCES,
)
from milepost.wire import MAX_INSTANCES, Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.job_access import epoch_under
from milepost_server.http.bodies import json_of
from milepost_server.http.headers import accepts, checked_name, epoch_of
from milepost_server.http.openapi.documents import json_body, json_schema
from milepost_server.http.openapi.operations import answers
from milepost_server.http.openapi.schemas import NAME_SCHEMA
from milepost_server.http.queries import from_token, limit_of, only_known, to_token
from milepost_server.http.replies import empty_reply, json_reply, json_response, reply_headers
from milepost_server.http.requests import HttpRequest
from milepost_server.http.routes.instance_bodies import (
    DeactivationBody,
    InstancesBody,
    ReportBody,
    SnapshotsBody,
    VerificationBody,
    values,
)
from milepost_server.operations.instances import Lag
from milepost_server.rules.instances import Instance

router = APIRouter(tags=["instances"])

_MOST = 2**63 - 1
_WHOLE = {"type": "integer", "format": "int64", "minimum": 0, "maximum": _MOST}
_INSTANCE = json_schema(
    {"operator": _WHOLE, "partition": _WHOLE, "name": NAME_SCHEMA, "run": NAME_SCHEMA},
    ["operator", "partition", "run"],
)
_INSTANCES = {"type": "array", "items": _INSTANCE, "maxItems": MAX_INSTANCES}
_PLACE = {"host": {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"}, "executor": NAME_SCHEMA}

_ONE = {"operator": 0, "partition": 3, "name": "default", "run": "9d0f3a2e"}
_OTHER = {**_ONE, "partition": 4}
_HERE = {"host": "10.0.0.7", "executor": "1-4711"}
_KNOWN = {**_ONE, **_HERE, "snapshot": 40, "age": 12.5}
_PAGE = {"instances": [_KNOWN], "next": "cnVuLzAvMy9kZWZhdWx0"}
_RECORD = "5f0c1e9ab3d2a417"


@answers(
    router,
    REPORT_INSTANCES,
    {200: ("Noted; these of the others are to be unloaded.", {"record": _RECORD, "unload": [_OTHER]})},
    body=json_body(
        {**_HERE, "loaded": [_ONE], "others": [_OTHER]},
        {**_PLACE, "loaded": _INSTANCES, "others": _INSTANCES},
        ["host", "executor", "loaded"],
    ),
)
async def report(request: HttpRequest, store: str) -> Response:
    """Note that an executor has these state stores loaded, wherever they were before.

    Of the `others` that it has, those that another executor reported are returned. The record is a hint in the leader's
    memory: nothing is stored, a new epoch begins another record, and so does a change of the leader.
    """
    checked_name(store, "store")
    epoch, body = _epoch(request, store), await json_of(request, ReportBody)
    loaded, others = values(body.loaded), values(body.others)
    operations = request.operations.instances
    return json_reply(operations.report(store, epoch, body.location(), loaded, others))


@answers(
    router,
    VERIFY_INSTANCES,
    {200: ("Those that are the executor's.", {"record": _RECORD, "active": [_ONE]})},
    body=json_body(
        {**_HERE, "record": _RECORD, "instances": [_ONE, _OTHER]},
        {**_PLACE, "record": {"type": "string", "maxLength": 200}, "instances": _INSTANCES},
        ["host", "executor", "instances"],
    ),
)
async def verify(request: HttpRequest, store: str) -> Response:
    """Return which of these state stores are still the executor's.

    `record` is what the last answer to the executor named. If that record is not there any more, what nobody has is the
    executor's again.
    """
    checked_name(store, "store")
    epoch, body = _epoch(request, store), await json_of(request, VerificationBody)
    operations = request.operations.instances
    return json_reply(operations.verify(store, epoch, body.location(), body.record, values(body.instances)))


@answers(
    router,
    LOCATE_INSTANCES,
    {200: ("Those that are loaded somewhere.", {"locations": [_KNOWN]})},
    body=json_body({"instances": [_ONE, _OTHER]}, {"instances": _INSTANCES}, ["instances"]),
)
async def locations(request: HttpRequest, store: str) -> Response:
    """Return which executors have these state stores loaded. Those that nobody has are left out."""
    checked_name(store, "store")
    body = await json_of(request, InstancesBody)
    return json_reply(request.operations.instances.locations(store, values(body.instances)))


@answers(
    router,
    NOTE_SNAPSHOTS,
    {204: ("Noted.", None)},
    body=json_body(
        {"snapshots": [{**_ONE, "version": 40}]},
        {
            "snapshots": {
                "type": "array",
                "maxItems": MAX_INSTANCES,
                "items": json_schema(
                    {**_INSTANCE["properties"], "version": _WHOLE}, [*_INSTANCE["required"], "version"]
                ),
            }
        },
        ["snapshots"],
    ),
)
async def snapshots(request: HttpRequest, store: str) -> Response:
    """Note the versions of snapshots that were made of state stores, unless newer ones are known."""
    checked_name(store, "store")
    epoch, body = _epoch(request, store), await json_of(request, SnapshotsBody)
    made = [(one.value(), one.version) for one in body.snapshots]
    return empty_reply(request.operations.instances.snapshots(store, epoch, made))


@answers(
    router,
    DEACTIVATE_INSTANCES,
    {200: ("How many there were.", {"deactivated": 1})},
    body=json_body(
        {"run": "9d0f3a2e", "executor": "1-4711"},
        {"instances": _INSTANCES, "run": NAME_SCHEMA, "executor": NAME_SCHEMA},
        [],
    ),
)
async def deactivate(request: HttpRequest, store: str) -> Response:
    """Let nobody have these instances any more: those of a run, of an executor, those named, or all of them.

    Each member that is given narrows what is meant.
    """
    checked_name(store, "store")
    epoch, body = _epoch(request, store), await json_of(request, DeactivationBody, optional=True)
    named = None if body.instances is None else values(body.instances)
    return json_reply(await request.operations.instances.deactivate(store, epoch, named, body.run, body.executor))


@answers(
    router,
    LIST_INSTANCES,
    {
        200: (
            "A page, by run, operator, partition and name.",
            _PAGE,
        )
    },
)
async def list_instances(request: HttpRequest, store: str) -> Response:
    """Return a page of what the executors of a job have loaded under its current epoch."""
    checked_name(store, "store")
    accepts(request, "application/json")
    only_known(request, LIST_INSTANCES)
    after, limit = _place_of(request.query_params.get("token")), limit_of(request.query_params.get("limit"))
    reply, last = await request.operations.instances.list_page(store, after, limit)
    following = None if last is None else to_token("/".join(map(str, last)))
    return json_response({**reply.answer.body, "next": following}, 200, reply_headers(reply))


@answers(
    router, GET_LAGGING_INSTANCES, {200: ("How many, and those that lag most.", {"count": 1, "lagging": [_KNOWN]})}
)
async def lagging(request: HttpRequest, store: str) -> Response:
    """Return which loaded state stores have not had a snapshot for long."""
    checked_name(store, "store")
    accepts(request, "application/json")
    only_known(request, GET_LAGGING_INSTANCES)
    query = request.query_params
    run = checked_name(query.get("run", ""), "run")
    lag = Lag(run, _whole(request, "version"), _whole(request, "versions"), _seconds(query.get("seconds", "0")))
    return json_reply(await request.operations.instances.lagging(store, lag, limit_of(query.get("limit"))))


def _epoch(request: HttpRequest, store: str) -> int | None:
    return epoch_under(request, store, epoch_of(request))


def _place_of(token: str | None) -> Instance | None:
    """Return the instance after which a page begins, None for the first page."""
    if token is None:
        return None
    parts = from_token(token).split("/")
    if len(parts) != 4 or not all(_is_whole(part) for part in parts[1:3]):
        raise problem(Code.INVALID_REQUEST, "the token of the page is not one that this service returned")
    run, operator, partition, name = parts
    return Instance(run, int(operator), int(partition), name)


def _is_whole(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) < 20 and int(value) <= _MOST


def _whole(request: HttpRequest, name: str) -> int:
    value = request.query_params.get(name, "")
    if not _is_whole(value):
        raise problem(Code.INVALID_REQUEST, f"{name} takes a whole number, 0 or more")
    return int(value)


def _seconds(value: str) -> float:
    try:
        found: float = msgspec.json.decode(value, type=Annotated[float, msgspec.Meta(ge=0)])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise problem(Code.INVALID_REQUEST, "seconds takes a number, 0 or more") from error
    return found

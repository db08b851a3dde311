"""The routes of ``/v1/jobs`` by which a client moves a job from one cell to another (docs/decisions/0124)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import (
    BEGIN_ARRIVAL,
    BEGIN_DEPARTURE,
    END_DEPARTURE,
    FINISH_ARRIVAL,
    LIST_RECORDS,
    READ_BLOB,
    WRITE_BLOB,
    WRITE_RECORDS,
)
from milepost.wire import NAME, STATE_MEDIA_TYPE, Code
from milepost_server.basics.problems import problem
from milepost_server.http.bodies import Digest, Size, json_of, long_json_of, no_fields, state_of
from milepost_server.http.headers import accepts, caller, caller_without_session, checked_name
from milepost_server.http.openapi.documents import answers, json_body
from milepost_server.http.openapi.schemas import NAME_SCHEMA
from milepost_server.http.queries import flag, from_token, only_known, to_token
from milepost_server.http.replies import about, bytes_reply, json_reply, json_response
from milepost_server.http.requests import HttpRequest
from milepost_server.model.requests.base import BlobRef
from milepost_server.model.requests.moves import BeginArrival, Departing
from milepost_server.model.wishes import Wish
from milepost_server.operations.moving import Moved
from milepost_server.operations.states import Span

router = APIRouter(tags=["moves"])

_MOST_BYTES = 2 * 1024 * 1024
"""A page has 64 KiB, and one record more, which may have all that a record may have in some pointer stores."""

_MOST_REVISION = 2**50
"""Far more changes than a journal ever has: the numbers of JSON, up to 2^53, suffice for all that comes later."""

_ID = "9f86d081884c7d659a2feaa0c55ad015"
_HERE: dict[str, Any] = {"job": "flights", "cell": "a", "cells": ["a", "b"], "placement": "here"}
_NOWHERE: dict[str, Any] = {"other": None, "epoch": None, "seal": None}
_ARRIVING = {**_HERE, "cell": "b", "placement": "arriving", "other": "a", "epoch": 7, "seal": None}
_COUNT: dict[str, Any] = {"type": "integer", "format": "int64", "minimum": 0}
_DEPARTING = {
    "revision": 42,
    "sealed": "9f86d081884c7d659a2feaa0c55ad015" * 2,
    "granted": 41,
    "dropped": 0,
    "wish": None,
}
_RECORD = {"kind": "page", "record": {"name": "acts-1", "schema": 1}}

MoveId = Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}")]
Revision = Annotated[int, msgspec.Meta(ge=0, le=_MOST_REVISION)]


class DepartureBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that freezes a job."""

    move: MoveId
    to: str


class DepartingBody(msgspec.Struct):
    """What the old cell says of a job as a whole."""

    revision: Revision
    sealed: Digest
    granted: Revision = 0
    dropped: Revision = 0
    wish: Wish | None = None


class ArrivalBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that begins an arrival."""

    move: MoveId
    source: str
    epoch: Annotated[int, msgspec.Meta(ge=1, le=_MOST_REVISION)]
    departing: DepartingBody


class FinishBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that finishes an arrival."""

    seal: MoveId


class MovedRecord(msgspec.Struct, forbid_unknown_fields=True):
    """One record."""

    kind: str
    record: dict[str, Any]


class RecordsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body with records."""

    move: MoveId
    records: list[MovedRecord]
    blobs: dict[str, str] = {}
    complete: bool = False


@answers(
    router,
    BEGIN_DEPARTURE,
    {200: ("The job is frozen.", {**_HERE, **_NOWHERE})},
    body=json_body({"move": _ID, "to": "b"}, {"move": NAME_SCHEMA, "to": NAME_SCHEMA}, ["move", "to"]),
)
async def begin_departure(request: HttpRequest, store: str) -> Response:
    """Freeze a job that is moved to the cell `to`. The session must hold the epoch, and the job is frozen for as long:
    it takes nothing but what the move asks for. `move` is an id that the client draws for this move.
    """
    checked_name(store, "store")
    acting = caller(request)
    body = await json_of(request, DepartureBody)
    request.detail = f"to {body.to[:60]}"
    reply = await request.operations.moving.freeze(acting, store, body.move, body.to)
    return json_reply(request.operations.placement.shown(reply, store))


@answers(
    router,
    END_DEPARTURE,
    {200: ("The tombstone is set.", {**_HERE, "placement": "moved", "other": "b", "epoch": 7, "seal": _ID})},
)
async def end_departure(request: HttpRequest, store: str) -> Response:
    """Set the tombstone of a frozen job, whose copy is complete: from this commit on the job is in the other cell. All
    that it had here is dropped. The session must hold the epoch.
    """
    checked_name(store, "store")
    only_known(request, END_DEPARTURE)
    acting, move = caller(request), _id_of(request)
    await no_fields(request)
    reply = await request.operations.moving.leave(acting, store, move)
    return json_reply(request.operations.placement.shown(reply, store))


@answers(
    router,
    BEGIN_ARRIVAL,
    {200: ("The job arrives.", _ARRIVING)},
    body=json_body(
        {"move": _ID, "source": "a", "epoch": 7, "departing": _DEPARTING},
        {
            "move": NAME_SCHEMA,
            "source": NAME_SCHEMA,
            "epoch": {**_COUNT, "minimum": 1},
            "departing": {
                "type": "object",
                "properties": {
                    "revision": _COUNT,
                    "sealed": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                    "granted": _COUNT,
                    "dropped": _COUNT,
                    "wish": {"nullable": True},
                },
                "required": ["revision", "sealed"],
            },
        },
        ["move", "source", "epoch", "departing"],
    ),
)
async def begin_arrival(request: HttpRequest, store: str) -> Response:
    """Begin the copy of a job that is frozen in the cell `source` under the epoch `epoch`, which must be above each
    that this cell knows of the job. `departing` is what the list of its records says. The job takes nothing but records
    and blobs until the arrival is finished.
    """
    checked_name(store, "store")
    acting = caller(request)
    body = await json_of(request, ArrivalBody)
    request.detail = f"from {body.source[:60]}"
    given = body.departing
    departing = Departing(given.revision, given.sealed, given.granted, given.dropped, given.wish)
    asked = BeginArrival(acting.attempt, store, body.move, body.source, body.epoch, departing)
    return json_reply(request.operations.placement.shown(await request.operations.moving.arrive(asked), store))


@answers(
    router,
    FINISH_ARRIVAL,
    {200: ("The job is here.", {**_HERE, **_NOWHERE, "cell": "b"})},
    body=json_body({"seal": _ID}, {"seal": NAME_SCHEMA}, ["seal"]),
)
async def finish_arrival(request: HttpRequest, store: str) -> Response:
    """Let an arriving job be here. `seal` is that in the tombstone of the old cell, with which any client may do this.
    Nothing changes if the job is here.
    """
    checked_name(store, "store")
    body = await json_of(request, FinishBody)
    reply = await request.operations.moving.finish(caller_without_session(request), store, body.seal)
    return json_reply(request.operations.placement.shown(reply, store))


@answers(
    router,
    LIST_RECORDS,
    {200: ("A page.", {"job": "flights", "departing": _DEPARTING, "records": [_RECORD], "next": "aGFuZGxlczo"})},
)
async def list_records(request: HttpRequest, store: str) -> Response:
    """Return a page of the records of a job that is frozen or that arrives: its handles, its files, and its history.
    The cell that it leaves and the one in which it arrives list the same, but for the keys of blobs.
    """
    checked_name(store, "store")
    accepts(request, "application/json")
    only_known(request, LIST_RECORDS)
    reply = await request.operations.moving.records(store, from_token(request.query_params.get("token")))
    body = {**reply.answer.body, "next": to_token(reply.answer.body["next"])}
    return json_response(body, 200, about(reply.revision, reply.term))


@answers(
    router,
    WRITE_RECORDS,
    {200: ("The records are written.", _ARRIVING)},
    body=json_body(
        {"move": _ID, "records": [_RECORD], "blobs": {}},
        {
            "move": NAME_SCHEMA,
            "records": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"kind": {"type": "string"}, "record": {"type": "object"}},
                    "required": ["kind", "record"],
                    "additionalProperties": False,
                },
            },
            "blobs": {"type": "object", "additionalProperties": {"type": "string"}},
            "complete": {"type": "boolean"},
        },
        ["move", "records"],
    ),
)
async def write_records(request: HttpRequest, store: str) -> Response:
    """Write records of an arriving job, as the old cell lists them. `blobs` has the key here of each blob that they
    name, by its key there. Writing a record again changes nothing. `complete` says, after the last of them, that both
    cells list the same: a copy that is not complete never becomes the job.
    """
    checked_name(store, "store")
    acting = caller(request)
    async with long_json_of(request, RecordsBody, _MOST_BYTES) as body:
        records = [Moved(each.kind, each.record) for each in body.records]
        writing = request.operations.moving.write(acting, store, body.move, records, body.blobs, complete=body.complete)
        reply = await writing
    return json_reply(request.operations.placement.shown(reply, store))


@answers(router, READ_BLOB, {200: ("The bytes.", b"")})
async def read_blob(request: HttpRequest, store: str) -> Response:
    """Return the bytes of a blob that a listed record of a job names, if they have this size and digest."""
    checked_name(store, "store")
    accepts(request, STATE_MEDIA_TYPE)
    only_known(request, READ_BLOB)
    query = request.query_params
    try:
        given = {name: query.get(name) for name in ("key", "size", "digest")}
        named = msgspec.convert(given, _BlobQuery, strict=False)
    except msgspec.ValidationError as error:
        raise problem(Code.INVALID_REQUEST, f"not the key, size and digest of a blob: {error}") from error
    chunks = await request.operations.moving.blob(store, BlobRef(named.key, named.size, named.digest))
    reading = request.context.journal.read()
    return bytes_reply(chunks, None, named.size, Span(0, named.size), about(reading.revision, reading.term))


class _BlobQuery(msgspec.Struct):
    key: str
    size: Size
    digest: Digest


@answers(
    router,
    WRITE_BLOB,
    {201: ("The key of the blob.", {"key": "c0ffee/flights/000000000007/5d41402abc4b2a76b9719d911017c592"})},
    body={
        "description": "The bytes of the blob.",
        "required": True,
        "content": {STATE_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    },
)
async def write_blob(request: HttpRequest, store: str) -> Response:
    """Store a blob of an arriving job, for a record that is written next. With `file=true` it has the bytes of a
    file.
    """
    checked_name(store, "store")
    only_known(request, WRITE_BLOB)
    caller_without_session(request)
    move, of_file = _id_of(request), flag(request, "file")
    key = await request.operations.moving.put_blob(store, move, state_of(request), of_file=of_file)
    reading = request.context.journal.read()
    return json_response({"key": key}, 201, about(reading.revision, reading.term))


def _id_of(request: HttpRequest) -> str:
    return checked_name(request.query_params.get("move", ""), "move")

"""The routes of ``/v1/jobs`` for acts that the SDK performs in several requests: restore, clone, drop, rescale."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.errors import Problem
from milepost.operations.handles import CLONE_JOB, DROP_JOB_AS_ACT, RESCALE_JOB, RESTORE_JOB
from milepost.wire import MAX_REASON_CHARACTERS, Code, Header
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import of_retry
from milepost_server.http.acts.acting import CREDENTIALS, ActCaller
from milepost_server.http.bodies import Size, json_of
from milepost_server.http.headers import caller_without_session, checked_name
from milepost_server.http.openapi.documents import answers, json_body
from milepost_server.http.openapi.schemas import NAME_SCHEMA
from milepost_server.http.replies import json_response
from milepost_server.http.requests import HttpRequest

router = APIRouter(tags=["jobs"])

_MOST_NAME = 200
_TEXT = {"type": "string", "maxLength": _MOST_NAME}
_NUMBER: dict[str, Any] = {"type": "integer", "format": "int64", "minimum": 0}
_POINT = {
    "snapshot": _TEXT,
    "batch": _NUMBER,
    "as_of": {"type": "string", "format": "date-time"},
}
_HOLDER = "{who} (milepost jobs {act})"
"""The holder of the session of an act: the form by which commands are known, too."""
_MOST_WHO = MAX_REASON_CHARACTERS - len(_HOLDER.format(who="", act="restore"))
"""The most characters of ``who``: with the name of the act it is the holder of a session."""
_ACT = {"dry_run": {"type": "boolean"}, "who": {"type": "string", "maxLength": _MOST_WHO}}
_PLANNED = {"job": "flights", "done": False, "epoch": 3, "holder": "local-1@spark-1:4711"}
_BECOMES = {
    "source": "the next batch is 8, from the offsets after batch 7",
    "state": "the state of Spark's operators is that of batch 7",
    "output": "job.files has published up to batch 7",
    "sink": "there is no other sink",
}

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_MOST_NAME)]


class ActBody(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a JSON body that all acts have."""

    dry_run: bool = False
    who: str = ""

    def checked(self, job: str, name: str) -> dict[str, Any]:
        """Return the members that all acts have. Raises an ``invalid-request`` problem if ``who`` cannot be shown."""
        if len(self.who) > _MOST_WHO or not self.who.isprintable():
            raise problem(Code.INVALID_REQUEST, f"who takes at most {_MOST_WHO} printable characters")
        holder = _HOLDER.format(who=self.who or "REST", act=name)
        return {"act": name, "job": job, "dry_run": self.dry_run, "holder": holder}


class _EpochBody(ActBody, forbid_unknown_fields=True):
    epoch: Size | None = None

    def checked(self, job: str, name: str) -> dict[str, Any]:
        if self.epoch is None and not self.dry_run:
            detail = "epoch is missing: the one in the answer to the dry run, so that the act is done to that job"
            raise problem(Code.INVALID_REQUEST, detail)
        return {**super().checked(job, name), "epoch": self.epoch}


class DropBody(_EpochBody, forbid_unknown_fields=True):
    """The JSON body of a request to drop a job."""


class RestoreBody(_EpochBody, forbid_unknown_fields=True):
    """The JSON body of a request to restore a job."""

    snapshot: Name | None = None
    batch: Size | None = None
    as_of: datetime | None = None


class CloneBody(ActBody, forbid_unknown_fields=True, kw_only=True):
    """The JSON body of a request to clone a job."""

    source: str
    snapshot: Name | None = None
    batch: Size | None = None
    as_of: datetime | None = None
    new_query_id: bool = False


class RescaleBody(ActBody, forbid_unknown_fields=True, kw_only=True):
    """The JSON body of a request to rescale a job."""

    partitions: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


@answers(
    router,
    RESTORE_JOB,
    {
        200: (
            "What became of the job, or would.",
            {
                **_PLANNED,
                "snapshot": "@42",
                "revision": 42,
                "directory": "checkpoint",
                "batch": 7,
                "published": 7,
                "published_before": 9,
                "becomes": _BECOMES,
            },
        )
    },
    body=json_body({"batch": 7, "dry_run": True}, {**_POINT, "epoch": _NUMBER, **_ACT}, []),
)
async def restore(request: HttpRequest, store: str) -> Response:
    """Restore a job to a snapshot: files, job record, published output and managed state go back together, in one
    commit. With `dry_run`, say what it would do, and change nothing.

    `snapshot` is the name of a savepoint or the revision of a snapshot; `batch` and `as_of` name the newest of that
    batch, and the newest from that time or before. `epoch` is that of the dry run: if another epoch was granted since,
    the act is refused, so a repeated one is not done twice. It is refused while a driver leads the job.
    """
    body = await _body(request, store, RestoreBody)
    if sum(given is not None for given in (body.snapshot, body.batch, body.as_of)) != 1:
        raise problem(Code.INVALID_REQUEST, "give one of snapshot, batch and as_of")
    return await _performed(request, {**body.checked(store, "restore"), **_point(body)})


@answers(
    router,
    CLONE_JOB,
    {
        200: (
            "What the clone is, or would be.",
            {
                **_PLANNED,
                "job": "flights-fix",
                "source": "flights",
                "epoch": 0,
                "snapshot": "@42",
                "revision": 42,
                "batch": 7,
                "published": 7,
                "becomes": {**_BECOMES, "query": "keeps the id that it has in flights"},
            },
        )
    },
    body=json_body(
        {"source": "flights", "batch": 7, "dry_run": True},
        {"source": NAME_SCHEMA, **_POINT, "new_query_id": {"type": "boolean"}, **_ACT},
        ["source"],
    ),
)
async def clone(request: HttpRequest, store: str) -> Response:
    """Begin a job as a clone of the job `source` at a snapshot, the newest unless one is named: with its files, its
    job record and its managed state, in one commit. With `dry_run`, say what it would do, and change nothing.

    The job must have neither files nor a record. With `new_query_id`, Spark's id of the query is another one than the
    original's. The original is only read; the caller needs the right to read it.
    """
    body = await _body(request, store, CloneBody)
    checked_name(body.source, "source")
    if sum(given is not None for given in (body.snapshot, body.batch, body.as_of)) > 1:
        raise problem(Code.INVALID_REQUEST, "give one of snapshot, batch and as_of, or none")
    more = {"source": body.source, "new_query_id": body.new_query_id, "cell": request.context.cells.own}
    return await _performed(request, {**body.checked(store, "clone"), **_point(body), **more})


@answers(
    router,
    DROP_JOB_AS_ACT,
    {
        200: (
            "What went, or would go.",
            {
                **_PLANNED,
                "batch": 7,
                "handles": 4,
                "snapshots": 10,
                "savepoints": ["before-upgrade"],
                "outputs": ["s3a://warehouse/flights"],
                "becomes": {},
            },
        )
    },
    body=json_body({"dry_run": True}, {"epoch": _NUMBER, **_ACT}, []),
)
async def drop(request: HttpRequest, store: str) -> Response:
    """Drop a job that no driver leads, in one commit: its handles, files, snapshots and savepoints. With `dry_run`, say
    what would go, and change nothing.

    `outputs` are the directories into which the job published, whose files stay; null if the job record cannot be read.
    `epoch` is that of the dry run: if another epoch was granted since, the act is refused.
    """
    body = await _body(request, store, DropBody)
    return await _performed(request, body.checked(store, "drop"))


@answers(
    router,
    RESCALE_JOB,
    {
        200: (
            "What a rescale would do.",
            {**_PLANNED, "partitions_before": 4, "partitions": 7, "batch": 8, "becomes": _BECOMES},
        )
    },
    body=json_body(
        {"partitions": 7, "dry_run": True},
        {"partitions": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 1_000_000}, **_ACT},
        ["partitions"],
    ),
)
async def rescale(request: HttpRequest, store: str) -> Response:
    """Say what a rescale of a job would do; `dry_run` must be true.

    Spark divides the state anew, and the service runs no Spark: `milepost jobs rescale` and `job.rescale` do it.
    """
    body = await _body(request, store, RescaleBody)
    if not body.dry_run:
        detail = (
            "Spark divides the state anew, and the service runs no Spark: call milepost jobs rescale, or job.rescale"
        )
        raise problem(Code.NOT_SUPPORTED, detail)
    return await _performed(request, {**body.checked(store, "rescale"), "partitions": body.partitions})


async def _body(request: HttpRequest, store: str, kind: type[Any]) -> Any:
    checked_name(store, "store")
    body = await json_of(request, kind)
    if body.dry_run:
        request.detail = "dry run"
    return body


def _point(body: RestoreBody | CloneBody) -> dict[str, Any]:
    """Return the members that say which snapshot is meant. Raises ``invalid-request`` for a time without a zone."""
    if body.as_of is not None and body.as_of.tzinfo is None:
        raise problem(Code.INVALID_REQUEST, "as_of takes a time with a zone, such as 2026-11-28T09:00:00Z")
    as_of = None if body.as_of is None else body.as_of.isoformat()
    return {"snapshot": body.snapshot, "batch": body.batch, "as_of": as_of}


async def _performed(request: HttpRequest, act: dict[str, Any]) -> Response:
    key = caller_without_session(request).attempt.key
    credentials = [(name, value) for name in CREDENTIALS for value in request.fields.all(name)]
    caller = ActCaller(request.owner, request.scope, credentials)
    try:
        answer, replayed = await request.context.acts.perform(caller, key, act)
    except Problem as error:
        if act["dry_run"]:
            raise
        raise of_retry(error, request) from None  # an earlier try may be what has changed the job meanwhile
    return json_response(answer, 200, {Header.REPLAYED: "true"} if replayed else {})

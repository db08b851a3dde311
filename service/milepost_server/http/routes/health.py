"""The routes for operators: health, leadership and its end, status and metrics."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.errors import Problem
from milepost.operations.operation import Right
from milepost.operations.replicas import GET_STATUS, IS_LEADER, LIVEZ, METRICS, READYZ, STEP_DOWN, WHOAMI
from milepost.wire import Header
from milepost_server.http.access.permission import may
from milepost_server.http.access.rights import EVERYTHING
from milepost_server.http.access.tokens import bearer_of
from milepost_server.http.bodies import json_of
from milepost_server.http.connection.exchange import is_certified
from milepost_server.http.openapi.documents import answers, json_body, plain, probe_operation
from milepost_server.http.replies import json_response
from milepost_server.http.requests import HttpRequest

router = APIRouter(tags=["health"])


@plain(router, LIVEZ, **probe_operation("It is."))
async def livez(_: HttpRequest) -> Response:
    """Answer that the process is alive, without using any backend."""
    return Response("ok\n", media_type="text/plain")


@plain(
    router,
    READYZ,
    **probe_operation(
        "It can.",
        "It can neither serve nor redirect, or a part does not answer.",
        verbose="If present, with or without a value: a line for each part; to readers of all stores, what was found.",
        exclude="A part that is not probed: `leadership`, `records`, `pointers` or `blobs`; may be repeated.",
    ),
)
async def readyz(request: HttpRequest) -> Response:
    """Answer 200 or 503. With `verbose` there is a line for each part; parts that `exclude` names are not probed.

    If clients must authenticate, a line shows findings only to a client that may read every store.
    """
    lines = await request.context.probes.run(request.query_params.getlist("exclude"))
    ready = all(line.ok for line in lines)
    body = "ok\n" if ready else "not ready\n"
    if "verbose" in request.query_params:
        found = await _reads_all(request)
        said = [line.text if found else "ok" if line.ok else "not ready" for line in lines]
        body = "".join(
            f"[{'+' if line.ok else '-'}] {line.part}: {text}\n" for line, text in zip(lines, said, strict=True)
        )
    return Response(body, 200 if ready else 503, media_type="text/plain")


async def _reads_all(request: HttpRequest) -> bool:
    """Return whether the caller may read every store, and so may see names of jobs and of damaged records, and the
    storage's own messages.

    Health probes and metrics are answered to every client. So a missing or wrong token, or one that cannot be looked
    up, is no error: the answer only omits these details.
    """
    context = request.context
    if context.certified_only and not is_certified(request.scope):
        return False
    if context.authentication.required:
        try:
            request.principal = await context.authentication.principal(bearer_of(request.fields.get("authorization")))
        except Problem:
            return False
    return may(request, Right.READ_ALL)


@plain(router, IS_LEADER, **probe_operation("It does.", "It does not."))
async def leader(request: HttpRequest) -> Response:
    """Answer 200 on the leader, 503 on any other replica."""
    leads = request.context.journal.lease_holds()
    return Response("leader\n" if leads else "follower\n", 200 if leads else 503, media_type="text/plain")


@plain(router, METRICS, **probe_operation("Counters and gauges."))
async def metrics(request: HttpRequest) -> Response:
    """Return the metrics in the text format of Prometheus.

    If clients must authenticate, only a client that may read every store gets the metrics that name single jobs.
    """
    text = await request.context.metrics.text(named=await _reads_all(request))
    return Response(text, media_type="text/plain; version=0.0.4")


@answers(
    router,
    GET_STATUS,
    {
        200: (
            "Answered by every replica itself.",
            {
                "replica": "host:7070",
                "role": "leader",
                "leader": "http://127.0.0.1:7070",
                "term": 3,
                "lease_remaining": 7.5,
                "leading_for": 86400.5,
                "replicas": ["http://127.0.0.1:7070", "http://127.0.0.1:7071"],
                "version": "0.1.0",
                "pointers": "embedded:./milepost-data",
                "blobs": "file:./milepost-data/blobs",
                "epochs_above": 0,
                "cell": "a",
                "cells": ["a", "b"],
            },
        )
    },
)
async def status(request: HttpRequest) -> Response:
    """Return the state of this replica, and what it knows of the service.

    `lease_remaining` is null for a lease that lasts as long as the process, and on followers. `replicas` are the leader
    and those that recently sent it a heartbeat; followers, for which it is null, do not know of each other.
    `epochs_above` is the number with which this replica was started: it grants only epochs above it. `cell` is the
    name of the cell that the replica belongs to, null if the deployment is none, and `cells` names those that it can
    ask for the console, null if its settings have no addresses of cells.
    """
    context, journal = request.context, request.context.journal
    leads = journal.lease_holds()
    # what the election said a moment ago may be from before this replica led
    leader = context.leader_locator.advertise if leads else await context.leader_locator.leader()
    return json_response(
        {
            "replica": context.name,
            "role": "leader" if leads else "follower",
            "leader": leader,
            "term": journal.term,
            "lease_remaining": _finite(journal.lease_remaining()),
            "leading_for": journal.leading_for(),
            "replicas": context.data_nodes.known.all() if leads else None,
            "version": context.version,
            "pointers": context.pointers,
            "blobs": context.blobs,
            "epochs_above": journal.epoch_floor,
            "cell": context.cells.own or None,
            "cells": context.cells.names or None,
        },
        200,
        {Header.TERM: str(journal.term)},
    )


@answers(
    router,
    WHOAMI,
    {
        200: (
            "Answered by every replica itself. Without tokens, everybody may do everything, and has no name.",
            {"name": "flights-driver", "reader": ["common-*"], "writer": ["flights"], "admin": False},
        )
    },
)
async def whoami(request: HttpRequest) -> Response:
    """Return the name of the client that owns the request's token, and its rights by patterns of stores.

    A writer of a store may read it, and an administrator may do everything.
    """
    principal = request.principal
    rights = EVERYTHING if principal is None else principal.rights
    body = {
        "name": None if principal is None else principal.name,
        "reader": rights.reader.texts,
        "writer": rights.writer.texts,
        "admin": rights.admin,
    }
    return json_response(body, 200, {Header.TERM: str(request.context.journal.term)})


class StepDownBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a request that the leader steps down."""

    term: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None


@answers(
    router,
    STEP_DOWN,
    {200: ("It does not lead any more.", {"replica": "host:7070", "term": 3})},
    body=json_body({"term": 3}, {"term": {"type": "integer", "format": "int64", "minimum": 1}}, []),
)
async def step_down(request: HttpRequest) -> Response:
    """Finish requests in flight, resign, and let another replica lead for a moment before standing as a candidate
    again.

    With `term` only the leader of that term steps down, so the request is safe to repeat.
    """
    body = await json_of(request, StepDownBody, optional=True)
    term = await request.operations.leading.step_down(body.term)
    return json_response({"replica": request.context.name, "term": term}, 200, {})


def _finite(remaining: float | None) -> float | None:
    return remaining if remaining is not None and math.isfinite(remaining) else None

"""The routes for operators: health, leadership, status and metrics."""

from __future__ import annotations

import math

from fastapi import APIRouter
from starlette.responses import Response

from milepost.wire import Header
from service.http.openapi.documents import openapi_operation, probe_operation
from service.http.replies import json_response
from service.http.requests import HttpRequest

router = APIRouter(tags=["health"])


@router.get("/livez", summary="Is the process alive", **probe_operation("It is."))
async def livez(_: HttpRequest) -> Response:
    """Answer that the process is alive, without using any backend."""
    return Response("ok\n", media_type="text/plain")


@router.get(
    "/readyz",
    summary="Can this replica serve or redirect",
    **probe_operation(
        "It can.",
        "It can neither serve nor redirect, or a part does not answer.",
        verbose="If present, with or without a value: a line for each part.",
        exclude="A part that is not probed: `leadership`, `records`, `pointers` or `blobs`; may be repeated.",
    ),
)
async def readyz(request: HttpRequest) -> Response:
    """Answer 200 or 503. With `verbose` there is a line for each part; parts that `exclude` names are not probed."""
    lines = await request.context.probes.run(request.query_params.getlist("exclude"))
    ready = all(line.ok for line in lines)
    text = "".join(f"[{'+' if line.ok else '-'}] {line.part}: {line.text}\n" for line in lines)
    body = text if "verbose" in request.query_params else ("ok\n" if ready else "not ready\n")
    return Response(body, 200 if ready else 503, media_type="text/plain")


@router.get("/leader", summary="Does this replica lead", **probe_operation("It does.", "It does not."))
async def leader(request: HttpRequest) -> Response:
    """Answer 200 on the leader, 503 on any other replica."""
    leads = request.context.journal.lease_holds()
    return Response("leader\n" if leads else "follower\n", 200 if leads else 503, media_type="text/plain")


@router.get("/metrics", summary="Prometheus metrics", **probe_operation("Counters and gauges."))
async def metrics(request: HttpRequest) -> Response:
    """Return the metrics in the text format of Prometheus."""
    return Response(request.context.metrics.text(), media_type="text/plain; version=0.0.4")


@router.get(
    "/v1/status",
    summary="What this replica is and knows",
    **openapi_operation(
        success={
            200: (
                "Answered by every replica itself.",
                {
                    "replica": "host:7070",
                    "role": "leader",
                    "leader": "http://127.0.0.1:7070",
                    "term": 3,
                    "lease_remaining": 7.5,
                    "version": "0.1.0",
                    "pointers": "embedded:./milepost-data",
                    "blobs": "file:./milepost-data/blobs",
                },
            )
        },
        store=False,
        by_leader=False,
    ),
)
async def status(request: HttpRequest) -> Response:
    """Return what this replica is and knows.

    `lease_remaining` is null for a lease that lasts as long as the process, and on followers.
    """
    context, journal = request.context, request.context.journal
    return json_response(
        {
            "replica": context.name,
            "role": "leader" if journal.lease_holds() else "follower",
            "leader": await context.leader_locator.leader(),
            "term": journal.term,
            "lease_remaining": _finite(journal.lease_remaining()),
            "version": context.version,
            "pointers": context.pointers,
            "blobs": context.blobs,
        },
        200,
        {Header.TERM: str(journal.term)},
    )


def _finite(remaining: float | None) -> float | None:
    return remaining if remaining is not None and math.isfinite(remaining) else None

"""The route of ``/v1/step-down``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.replicas import STEP_DOWN
from milepost_server.http.bodies import json_of
from milepost_server.http.openapi.documents import json_body
from milepost_server.http.openapi.operations import answers
from milepost_server.http.replies import json_response
from milepost_server.http.requests import HttpRequest

router = APIRouter(tags=["health"])


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

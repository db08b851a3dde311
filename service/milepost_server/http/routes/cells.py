"""The route of ``/v1/cells/{cell}``: some reads of another cell, for the console, which reaches one cell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.handles import GET_JOB, GET_JOB_HISTORY, LIST_JOBS, LIST_SESSIONS
from milepost.operations.operation import RestOperation
from milepost.operations.replicas import GET_STATUS, READ_CELL
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import require
from milepost_server.http.cells.relay import RELAYED
from milepost_server.http.headers import checked_name
from milepost_server.http.openapi.documents import plain
from milepost_server.http.requests import HttpRequest
from milepost_server.http.routes import health, history, jobs, sessions

router = APIRouter(tags=["cells"])


class _Read(NamedTuple):
    operation: RestOperation
    endpoint: Callable[..., Awaitable[Response]]


_READS: Final = (
    _Read(LIST_JOBS, jobs.list_jobs),
    _Read(GET_JOB, jobs.describe),
    _Read(GET_JOB_HISTORY, history.history),
    _Read(LIST_SESSIONS, sessions.list_sessions),
    _Read(GET_STATUS, health.status),
)
"""What can be read of another cell. All of it is short, and none is about the bytes of a job."""


@plain(router, READ_CELL)
async def read_cell(request: HttpRequest, cell: str, path: str) -> Response:
    """Return what the leader of a cell answers to `GET /v1/{path}`, with the caller's own token: the list of jobs, one
    job, its history, the sessions, or the status.

    The replica asks the other cell; a request that another cell has sent is for this cell, or is refused.
    """
    read, parameters = _found(path)
    for each in parameters:
        checked_name(each, "job")
    relay = request.context.cells
    query = request.scope["query_string"].decode("ascii")
    target = read.operation.target(*parameters) + (f"?{query}" if query else "")
    authorization = request.fields.get("authorization")
    if cell and cell == relay.own:
        if request.context.journal.lease_holds() or not read.operation.by_leader:
            require(request, read.operation.right, parameters[0] if read.operation.of_store else None)
            return await read.endpoint(request, *parameters)
        return await relay.ask_leader(target, authorization)
    if RELAYED in request.fields:
        what = f"the cell {relay.own}" if relay.own else "no cell"
        raise problem(Code.NOT_EXIST, f"this is {what}, and not {cell[:60]!r}: the list of cells has a wrong address")
    return await relay.ask_cell(cell, READ_CELL.target(cell, target.removeprefix("/v1/")), authorization)


def _found(path: str) -> tuple[_Read, Sequence[str]]:
    segments = path.split("/")
    for read in _READS:
        pattern = read.operation.path.removeprefix("/v1/").split("/")
        if len(pattern) == len(segments):
            pairs = list(zip(pattern, segments, strict=True))
            if all(_is_parameter(part) or part == given for part, given in pairs):
                return read, [given for part, given in pairs if _is_parameter(part)]
    raise problem(Code.NO_ROUTE, f"{path[:60]!r} cannot be read of a cell")


def _is_parameter(part: str) -> bool:
    return part.startswith("{")

"""The routes of WebHDFS: one for each method; the parameter ``op`` names the operation."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter
from starlette.responses import Response

from milepost.errors import Problem
from milepost.operations.files import CHANGE_FILES, DELETE_FILES, READ_FILES, WRITE_FILES
from milepost.operations.operation import Right
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.openapi.documents import plain
from milepost_server.http.openapi.files import (
    DELETE_QUERY,
    DONE,
    READ_EXAMPLES,
    READ_QUERY,
    WRITE_QUERY,
    files_operation,
)
from milepost_server.http.requests import HttpRequest
from milepost_server.http.webhdfs.datanode.transfer_tokens import PARAMETER
from milepost_server.http.webhdfs.errors import remote_exception
from milepost_server.http.webhdfs.parameters import (
    Above,
    allowed,
    is_of_lost_header,
    of_lost_header,
    place_of,
    text,
)
from milepost_server.http.webhdfs.reads import READS
from milepost_server.http.webhdfs.responses import KEPT, Answer
from milepost_server.http.webhdfs.whole_files import of_attempt
from milepost_server.http.webhdfs.writes import DELETES, WRITES
from milepost_server.operations.trees import At

router = APIRouter(tags=["files"])

_BY_DATA_NODES = frozenset({"OPEN", "CREATE"})
"""The operations that every replica answers as a data node, if the address has an upload or download token."""

_MAKE_SURE = "MKDIRS"
"""The operation that needs no epoch if the directory exists, since it then changes nothing."""


@plain(
    router,
    READ_FILES,
    **files_operation(
        READS,
        READ_QUERY,
        {200: "What was asked for, or the bytes at the address that a 307 gave."},
        READ_EXAMPLES,
        gives_bytes=True,
    ),
)
async def read(request: HttpRequest, path: str = "") -> Response:
    """Answer operations that change nothing. OPEN is answered with a redirect to a data node, which sends the bytes."""
    return await _answered(request, path, READS)


@plain(
    router,
    WRITE_FILES,
    **files_operation(
        WRITES,
        WRITE_QUERY,
        {200: "MKDIRS and RENAME: done, or not.", 201: "CREATE: the file is there, whole."},
        {"MKDIRS": DONE, "RENAME": DONE},
        takes_bytes=True,
    ),
)
async def write(request: HttpRequest, path: str = "") -> Response:
    """Answer operations that make or rename files, under the current epoch of the store.

    CREATE is answered with a redirect to a data node, which receives the bytes. With `data=true` the bytes come with
    the request itself, which the leader takes. The file becomes visible after the last byte.
    """
    return await _answered(request, path, WRITES)


@plain(router, CHANGE_FILES)
async def change(request: HttpRequest, path: str = "") -> Response:
    """Refuse operations that would change existing bytes (APPEND, CONCAT, TRUNCATE): a file is always written
    completely, and never changed.
    """
    return await _answered(request, path, {})


@plain(
    router,
    DELETE_FILES,
    **files_operation(
        DELETES,
        DELETE_QUERY,
        {200: "Whether there was something to delete."},
        {"DELETE": DONE},
        redirects=False,
    ),
)
async def delete(request: HttpRequest, path: str = "") -> Response:
    """Answer operations that delete files, under the current epoch of the store."""
    return await _answered(request, path, DELETES)


async def _answered(request: HttpRequest, path: str, known: Mapping[str, Answer]) -> Response:
    response = await _answer(request, path, known)
    headers = response.raw_headers
    if request.fields.get("connection").lower() != "close" and not any(name == b"connection" for name, _ in headers):
        headers += KEPT
    return response


async def _answer(request: HttpRequest, path: str, known: Mapping[str, Answer]) -> Response:
    place: At | Above | None = None
    try:
        asked = (text(request.query_params, "op") or "").upper()
        if asked not in known:
            raise problem(
                Code.NOT_SUPPORTED, f"{request.method} with op={asked[:40]!r} is not supported{_lost(request)}"
            )
        place = place_of(path)
        looks = request.method == "GET" or asked == _MAKE_SURE
        allowed(request, Right.READ_OF_JOB if looks else Right.WRITE_OF_JOB, place)
        state = request.context.journal.state_if_leading()
        if state is None and not (asked in _BY_DATA_NODES and PARAMETER in request.query_params):
            raise problem(Code.NO_LEADER, "this replica does not lead")
        if state is not None and isinstance(place, At) and state.unloaded(place.store):
            await request.operations.trees.ready(place.store)
        return await known[asked](request, place)
    except Problem as error:
        if isinstance(place, At) and is_of_lost_header(error, request, place):
            error = of_lost_header(error, place)
        return remote_exception(of_attempt(error, request))


def _lost(request: HttpRequest) -> str:
    """Return a hint for the refusal of a request without ``op``: Java may have sent a ``?`` in place of a letter of the
    path, so that the rest of the path was read as the query. Empty if the query has no second ``?``.
    """
    if b"?" not in request.scope["query_string"]:
        return ""
    return ": Java sends '?' for letters that its file.encoding does not have, so start it with -Dfile.encoding=UTF-8"

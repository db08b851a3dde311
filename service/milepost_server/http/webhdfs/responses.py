"""What the answers of WebHDFS have in common: their headers, their addresses, and JSON."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response

from milepost_server.http.replies import CLOSING
from milepost_server.http.requests import HttpRequest
from milepost_server.http.webhdfs.datanode.transfer_tokens import PARAMETER
from milepost_server.http.webhdfs.parameters import JOBS, Above, flag
from milepost_server.operations.trees import At

PREFIX: Final = "/webhdfs/v1"
"""What the path of each request begins with."""

KEPT: Final = ((b"connection", b"keep-alive"), (b"keep-alive", b"timeout=1"))
"""The headers that make Java keep an idle connection for one second instead of five.

Java sends a body over a kept connection without checking that it is still open, and then fails without a retry. A
server that was restarted needs longer than a second to accept connections again, so no kept connection leads to a dead
server. Java obeys the second header only if the first is present.
"""

Answer = Callable[[HttpRequest, At | Above], Awaitable[Response]]
"""Answers one operation about a place in the tree."""

PLAIN_QUERY: Final = re.compile(rb"[A-Za-z0-9._-]+=[A-Za-z0-9._-]*(?:&[A-Za-z0-9._-]+=[A-Za-z0-9._-]*)*")
"""A query that is the same if it is decoded and encoded again."""

_UNQUOTED: Final = re.compile(r"[A-Za-z0-9._~/-]*")
"""A path that is the same in an address, as most are."""


def json_response(body: Mapping[str, Any]) -> Response:
    """Return a JSON answer without a Content-Type, which Hadoop's client could not handle (see `remote_exception`)."""
    return Response(msgspec.json.encode(body))


def to_data_node(request: HttpRequest, data_node: str, token: str) -> Response:
    """Redirect the client to a data node. Hadoop's client sends no body before it is redirected."""
    raw_path, query = request.scope["raw_path"].decode("ascii"), request.scope["query_string"]
    # a token never has a character to encode
    if PLAIN_QUERY.fullmatch(query) and PARAMETER not in request.query_params:
        location = f"{data_node}{raw_path}?{query.decode('ascii')}&{PARAMETER}={token}"
    else:
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != PARAMETER]
        location = f"{data_node}{raw_path}?{urlencode([*kept, (PARAMETER, token)])}"
    if flag(request.query_params, "noredirect"):
        return json_response({"Location": location})
    return Response(status_code=307, headers={"Location": location})


def closing(request: HttpRequest) -> dict[str, str]:
    """Return the header by which a data node makes the client close its connection; none if this replica leads. Java
    sends the next body over a kept connection unchecked, and fails if the data node has died since.
    """
    return {} if request.context.journal.lease_holds() else CLOSING


def put_at(at: At) -> str:
    """Return the address of a file that was put, as WebHDFS tells it."""
    path = at.path if _UNQUOTED.fullmatch(at.path) else quote(at.path)
    return f"webhdfs://milepost/{JOBS}/{at.store}/{path}"

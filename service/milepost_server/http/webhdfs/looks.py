"""The looks of Hadoop's clients on the short way: most requests of a checkpoint file are such looks.

A look is a GET request that the leader answers from memory: the status of a file, a small directory, the server's
defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec
from starlette.datastructures import QueryParams

from milepost.wire import Code
from milepost_server.http.requests import MOST_REMEMBERED_BYTES
from milepost_server.http.webhdfs.errors import status_and_body
from milepost_server.http.webhdfs.parameters import Above
from milepost_server.http.webhdfs.statuses import SERVER_DEFAULTS, Statuses, file_status, list_pieces
from milepost_server.memory.state import State
from milepost_server.operations.trees import At, absent_at, few_children, found_in
from milepost_server.rules.trees.visibility import ROOT

MOST_BYTES: Final = 4096
"""The most bytes of a request that this module reads."""

_BEGINNING: Final = b"GET /webhdfs/v1/"
_END: Final = b"\r\n\r\n"
_TARGET: Final = re.compile(
    rb"GET /webhdfs/v1/([A-Za-z0-9._~/=+,:@-]*)\?([A-Za-z0-9._~=&-]{0,%d}) HTTP/1\.1" % MOST_REMEMBERED_BYTES
)
_MOST_CHILDREN: Final = 64
_encode: Final = msgspec.json.Encoder().encode
_OK: Final = b"200 OK"
_NOT_FOUND: Final = b"404 Not Found"
_HEAD: Final = (
    b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\nconnection: keep-alive\r\nkeep-alive: timeout=1\r\nx-request-id: %b\r\n"
    b"x-content-type-options: nosniff\r\ncache-control: no-store\r\nmilepost-term: %d\r\n\r\n"
)

Found = tuple[int, bytes]
"""The status and the body of an answer."""


def status(state: State, place: At | Above) -> Found:
    """Answer GETFILESTATUS. Raises ``corrupt`` problems."""
    entry = ROOT if isinstance(place, Above) else found_in(state, place)
    if entry is not None:
        return 200, _encode({"FileStatus": file_status(entry, "")})
    assert isinstance(place, At)
    return status_and_body(Code.NOT_EXIST, absent_at(place))


def children(state: State, place: At | Above) -> Found | None:
    """Answer LISTSTATUS of a directory with few entries; return None for any other. Raises ``corrupt`` problems."""
    found = None if isinstance(place, Above) else few_children(state, place, _MOST_CHILDREN)
    if found is None:
        return None
    listed = Statuses()
    for name, entry in found:
        listed.add(name, entry)
    return 200, b"".join(list_pieces(listed))


def defaults(_state: State, _place: At | Above) -> Found:
    """Answer GETSERVERDEFAULTS."""
    return 200, _encode({"FsServerDefaults": SERVER_DEFAULTS})


Look = Callable[[State, At | Above], Found | None]
"""Makes the answer to a look at a place; None if the routes must make it."""

_LOOKS: Final[dict[str, Look]] = {
    "GETFILESTATUS": status,
    "GETFILELINKSTATUS": status,
    "LISTSTATUS": children,
    "GETSERVERDEFAULTS": defaults,
}


@lru_cache(1024)
def look_of(query: bytes) -> Look | None:
    """Return the look that a query asks for; None if it asks for something else."""
    named = QueryParams(query.decode("ascii")).getlist("op")
    return _LOOKS.get(named[0].upper()) if len(named) == 1 else None

"""Answers the looks of Hadoop's clients in front of the parser: most requests of a checkpoint file are such looks.

A look is a GET request that the leader answers from memory: the status of a file, a small directory, the server's
defaults. A look that is not of the usual form, or that needs more than memory, is answered as every other request is,
and so is a look that must be refused. So this module decides nothing that the routes do not decide as well, and both
give the same answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from starlette.datastructures import QueryParams

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.http.access.permission import may_look
from milepost_server.http.connection.known_heads import KnownHeads
from milepost_server.http.requests import MOST_REMEMBERED_BYTES, Context
from milepost_server.http.webhdfs.errors import status_and_body
from milepost_server.http.webhdfs.parameters import Above, place_of
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
def _look_of(query: bytes) -> Look | None:
    """Return the look that a query asks for; None if it asks for something else."""
    named = QueryParams(query.decode("ascii")).getlist("op")
    return _LOOKS.get(named[0].upper()) if len(named) == 1 else None


class Looks:
    """Answers looks from memory. The answers are counted and logged like any other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._journal = context.journal
        self._heads = KnownHeads(context.hosts)
        self._common: Sequence[tuple[bytes, bytes]] = ()
        self._date = b""

    def answer(self, data: bytes, common: Sequence[tuple[bytes, bytes]]) -> bytes | None:
        """Return the bytes of the answer to a request; None if the request must be read as every other request is.

        ``data`` is all that came from the client, after complete requests. ``common`` has the fields that each answer
        of the server begins with.
        """
        if (
            self._context.certified_only
            or not data.startswith(_BEGINNING)
            or len(data) > MOST_BYTES
            or data.find(_END) != len(data) - len(_END)
        ):
            return None
        clock = self._context.clock
        began = clock()
        line, _, fields = data.partition(b"\r\n")
        target = _TARGET.fullmatch(line)
        head = self._heads.get(fields) if target is not None else None
        if target is None or head is None:
            return None
        look, state = _look_of(target[2]), self._journal.state_if_leading()
        if look is None or state is None:
            return None
        owner = None
        if self._context.authentication.required:
            owner = None if head.digest is None else self._context.authentication.remembered(head.digest)
            if owner is None:
                return None
        elif not head.host_is_known:
            return None
        path = target[1].decode("ascii")
        try:
            place = place_of(path)
            if isinstance(place, At) and not (may_look(owner, place.store) and not state.unloaded(place.store)):
                return None
            found = look(state, place)
        except Problem:
            return None
        if found is None:
            return None
        status, body = found
        return self._head(status, len(body), common, path, clock() - began, "" if owner is None else owner.name) + body

    def _head(
        self,
        status: int,
        size: int,
        common: Sequence[tuple[bytes, bytes]],
        path: str,
        seconds: float,
        token: str,
    ) -> bytes:
        """Return the head of an answer, which is counted and logged."""
        if common is not self._common:
            self._common, self._date = common, b"".join(b"%b: %b\r\n" % field for field in common)
        request_id, context = b"%016x" % random.getrandbits(64), self._context
        context.metrics.note("GET", status, seconds)
        if context.access is not None:
            context.access.note("GET", f"/webhdfs/v1/{path}", status, seconds, request_id.decode("ascii"), token)
        line = _OK if status == 200 else _NOT_FOUND
        return _HEAD % (line, self._date, size, request_id, self._journal.term)

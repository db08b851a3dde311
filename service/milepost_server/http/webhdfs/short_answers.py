"""The answers of the short way: their bytes, made in one piece, and the answers to writes, which wait for a commit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from starlette.responses import Response

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.http.connection.short_exchange import Common, Finished
from milepost_server.http.noted_answers import NotedAnswers
from milepost_server.http.replies import (
    CLOSING,
    cancelled_problem,
    common_fields,
    internal_problem,
    new_request_id,
    problem_response,
)
from milepost_server.http.webhdfs.errors import remote_exception
from milepost_server.http.webhdfs.parameters import of_lost_header
from milepost_server.http.webhdfs.quick_writes import Written
from milepost_server.http.webhdfs.responses import KEPT
from milepost_server.operations.trees import At

log = logging.getLogger("milepost.http")

_HEAD: Final = (
    b"HTTP/1.1 %b\r\n%b%bcontent-length: %d\r\n%bx-request-id: %b\r\nx-content-type-options: nosniff\r\n"
    b"cache-control: no-store\r\nmilepost-term: %d\r\n\r\n"
)
_KEPT: Final = b"".join(b"%b: %b\r\n" % field for field in KEPT)
_JSON: Final = b"content-type: application/json\r\n"
_LINES: Final = {
    200: b"200 OK",
    201: b"201 Created",
    307: b"307 Temporary Redirect",
    404: b"404 Not Found",
}


class Asked(NamedTuple):
    """A request whose answer waits for a commit: its method and its path, the name of its caller, the monotonic time at
    which it came, and the fields that its answer begins with.

    ``lost`` is the place that a write of a Hadoop client is about if it names no epoch. ``by_replica`` is whether
    another replica sent the request, which understands other refusals than Hadoop's client.
    """

    method: str
    path: str
    caller: str
    began: float
    common: Common
    lost: At | None = None
    by_replica: bool = False


class ShortAnswers(NotedAnswers):
    """Makes the answers to requests for a checkpoint file."""

    def made(self, asked: Asked, status: int, body: bytes, location: bytes = b"") -> bytes:
        """Return the bytes of an answer."""
        beginning, request_id = self._beginning(asked.common), new_request_id()
        self._note(asked.method, asked.path, status, asked.caller, asked.began, request_id)
        given = b"location: %b\r\n" % location if location else b""
        about = _JSON if asked.by_replica else _KEPT
        said = request_id.encode("ascii")
        return _HEAD % (_LINES[status], beginning, given, len(body), about, said, self._journal.term) + body

    async def finished(self, asked: Asked, write: Callable[[], Awaitable[Written]]) -> Finished:
        """Do a write, and return its answer, also if the write is refused or fails."""
        refuse = problem_response if asked.by_replica else remote_exception
        try:
            status, body, location = await write()
            if status == 201 and not self._journal.lease_holds():
                # a data node makes the client close its connection; see `routes`
                return self._of(asked, Response(b"", 201, {"Location": location.decode("latin-1"), **CLOSING}))
            return Finished(self.made(asked, status, body, location), True)
        except Problem as error:
            if asked.lost is not None and error.code is Code.FENCED:
                error = of_lost_header(error, asked.lost)
            return self._of(asked, refuse(error), () if asked.by_replica else KEPT)
        except asyncio.CancelledError:
            # the server is stopping and has cancelled this request
            request_id = new_request_id()
            return self._of(asked, refuse(cancelled_problem(asked.method, asked.path, request_id)), (), request_id)
        except Exception:
            log.exception("%s %s failed unexpectedly and is answered as 500", asked.method, asked.path)
            return self._of(asked, refuse(internal_problem()))

    def _of(self, asked: Asked, response: Response, kept: Common = (), request_id: str = "") -> Finished:
        """Return the answer in a response, which is not one of the usual ones."""
        request_id = request_id or new_request_id()
        self._note(asked.method, asked.path, response.status_code, asked.caller, asked.began, request_id)
        return self._finished(response, asked.common, common_fields(request_id, self._journal.term), kept)

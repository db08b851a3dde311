"""The server's connection handling: whoever still listens gets an answer, also to a body that is cut short and to what
is no HTTP at all.
"""

from __future__ import annotations

import secrets
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from milepost.wire import Code, Header
from service.http.problems import problem_response
from service.problems import problem

_CUT = "milepost.body_cut"


class AnsweringProtocol(HttpToolsProtocol):
    """Keeps a half-closed connection open for the answer, and answers problems where the stock protocol has plain text.

    The stock protocol lets the transport close itself at the end of file: a sender that shut down only its writing
    side would never learn that its body arrived incomplete, nor what became of a request that was whole.
    """

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Tell the application that no more will come, and keep the writing side while an answer is due."""
        cycle = _unanswered(self.cycle)
        if cycle is None:
            return None
        cycle.keep_alive = False
        if cycle.more_body:
            cycle.scope.setdefault("extensions", {})[_CUT] = {}  # the one place of the scope that is free for marks
            cycle.more_body = False
            cycle.message_event.set()
        return True

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed, unless an answer is on its way already, and close the connection."""
        cycle = _unanswered(self.cycle)
        if cycle is None or not cycle.response_started:
            self.transport.write(_no_request(msg))
        self.transport.close()


def was_cut(scope: MutableMapping[str, Any]) -> bool:
    """Whether the body of this request ended before its end."""
    return _CUT in (scope.get("extensions") or {})


def _unanswered(cycle: RequestResponseCycle | None) -> RequestResponseCycle | None:
    """The request, if its answer is still due; None before the first one."""
    return None if cycle is None or cycle.response_complete else cycle


def _no_request(detail: str) -> bytes:
    """A whole answer. Nobody knows who leads down here, so it carries no term."""
    headers = {Header.REQUEST_ID: secrets.token_hex(8), "Connection": "close"}
    response = problem_response(problem(Code.INVALID_REQUEST, detail), headers)
    lines = [b"HTTP/1.1 %d %s" % (response.status_code, HTTPStatus(response.status_code).phrase.encode())]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(response.body)])

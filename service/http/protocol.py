"""The server's connection handling: whoever still listens gets an answer, also to a body that is cut short and to what
is no HTTP at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from milepost.wire import Code
from service.http.application import Application
from service.http.requests import Fields
from service.problems import problem
from service.settings import IDLE_SECONDS

MOST_HEAD_BYTES = 64 * 1024

_CUT = "milepost.body_cut"


class AnsweringProtocol(HttpToolsProtocol):
    """Keeps a half-closed connection open for the answer, and answers problems where the stock protocol has plain text.
    Serves what `create_app` makes, and nothing else.

    The stock protocol lets the transport close itself at the end of file: a sender that shut down only its writing
    side would never learn that its body arrived incomplete, nor what became of a request that was whole.
    """

    _head_is_open = False
    _head_bytes = 0
    _started: RequestResponseCycle | None = None
    _hears_no_more = False
    _idle: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Hold a request's head to about `MOST_HEAD_BYTES`; the parser itself would gather one without end.

        Counted are reads that lie in one head altogether: the read in which it began may hold other requests.
        """
        if self._hears_no_more:
            return
        was_open = self._head_is_open
        super().data_received(data)
        self._await_head()
        if was_open and self._head_is_open:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(Code.TOO_LARGE, f"the head of a request may have at most {MOST_HEAD_BYTES} bytes")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A first head is due."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is due any more."""
        super().connection_lost(exc)
        if self._idle is not None:
            self._idle.cancel()

    def _await_head(self) -> None:
        """Close the connection if nothing comes for too long where a head is due, or open. Bodies are watched by who
        reads them, and a connection that is kept has a time of its own.
        """
        if self._idle is not None:
            self._idle.cancel()
        if self._head_is_open or self.cycle is None:
            app = self.config.app
            seconds = app.idle_seconds if isinstance(app, Application) else IDLE_SECONDS
            self._idle = self.loop.call_later(seconds, self.transport.close)

    def on_message_begin(self) -> None:
        """A head begins."""
        self._head_is_open = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._head_is_open, self._head_bytes = False, 0
        super().on_headers_complete()

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
        """Answer what cannot be parsed."""
        self._refuse(Code.INVALID_REQUEST, msg)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._started = cycle
        super()._start_asgi_task(cycle, app)

    def _refuse(self, code: Code, detail: str) -> None:
        """Answer with a problem, unless another answer is on its way already, and close the connection.

        While the answer to a whole request is due, that one goes out and is the last: who sent it would take any other
        in its place.
        """
        if (last := self._last_whole()) is not None:
            last.keep_alive = False
            self._hears_no_more = True
            return
        cycle = _unanswered(self.cycle)
        if cycle is None or not cycle.response_started:
            app = self.config.app
            assert isinstance(app, Application)
            read = self.headers if self._head_is_open or cycle is not None else []
            self.transport.write(_whole(app.refusal(problem(code, detail), Fields(read))))
        self.transport.close()

    def _last_whole(self) -> RequestResponseCycle | None:
        """The last whole request whose answer is due; one behind it whose body broke off is dropped."""
        if self.pipeline and self.pipeline[0][0].more_body:
            self.pipeline.popleft()
        cycle = self.pipeline[0][0] if self.pipeline else _unanswered(self._started)
        return None if cycle is None or cycle.more_body else cycle


def was_cut(scope: MutableMapping[str, Any]) -> bool:
    """Whether the body of this request ended before its end."""
    return _CUT in (scope.get("extensions") or {})


def _unanswered(cycle: RequestResponseCycle | None) -> RequestResponseCycle | None:
    """The request, if its answer is still due; None before the first one."""
    return None if cycle is None or cycle.response_complete else cycle


def _whole(response: Response) -> bytes:
    """The bytes of the last answer on a connection."""
    lines = [b"HTTP/1.1 %d %s" % (response.status_code, HTTPStatus(response.status_code).phrase.encode())]
    lines += [name + b": " + value for name, value in (*response.raw_headers, (b"connection", b"close"))]
    return b"\r\n".join([*lines, b"", bytes(response.body)])

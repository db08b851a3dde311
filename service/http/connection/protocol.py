"""The server's connection handling: whoever still listens gets an answer, also to a body that is cut short and to what
is no HTTP at all; and nobody, known or not, takes more of memory or time than a bound says.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, Final

import httptools
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from milepost.errors import Problem
from milepost.wire import Code
from service.basics.problems import problem
from service.http.application import Application
from service.http.connection.framing import Framing
from service.http.connection.line import LingeringTransport
from service.http.connection.watch import Watch
from service.http.requests import Fields

MOST_HEAD_BYTES: Final = 64 * 1024
"""Also the most that may come between two bytes of a body: sizes of chunks, their extensions, and the trailers."""
_SLICE_BYTES: Final = 16 * 1024
"""How much is parsed at once: so many requests at most are in memory of a peer that sends them without waiting."""

_CUT = "milepost.body_cut"
_ENDED = "milepost.peer_ended"


class AnsweringProtocol(HttpToolsProtocol):
    """Keeps a half-closed connection open for the answer, and answers problems where the stock protocol has plain text.
    Serves what `create_app` makes, and nothing else.

    The stock protocol lets the transport close itself at the end of file: a sender that shut down only its writing
    side would never learn that its body arrived incomplete, nor what became of a request that was whole. It gathers
    heads and trailers without end, takes trailers for headers, and drops the body of a request that offers an upgrade.
    """

    transport: LingeringTransport
    _watch: Watch
    _head_is_open = False
    _since_progress = 0
    _progress = False
    _held = b""
    _peer_has_ended = False
    _hears_no_more = False
    _more_is_dropped = False
    _started: RequestResponseCycle | None = None
    _fault: Problem | None = None

    @property
    def _application(self) -> Application:
        app = self.config.app
        assert isinstance(app, Application)
        return app

    # -- the connection ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A first head is due."""
        line = LingeringTransport(transport, self._more_may_come, self._linger)
        self._watch = Watch(self.loop, line, self._application.idle_seconds, lambda: not self.flow.read_paused)
        self._framing = Framing()
        super().connection_made(line)
        self._watch.expect()
        if not self._application.connections.opened(self):
            self._refuse(problem(Code.TOO_MANY_REQUESTS, "there is no room for more connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is due any more."""
        self._watch.end()
        self._application.connections.closed(self)
        if (running := _unanswered(self._started)) is not None:  # the stock protocol tells the last that was sent alone
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Make room for others."""
        self.transport.abort()

    def pause_writing(self) -> None:
        """The reader is slower than what it asked for."""
        self._application.connections.waits(self, self.transport.unsent)
        super().pause_writing()

    def resume_writing(self) -> None:
        """The reader has caught up."""
        self._application.connections.flows(self)
        super().resume_writing()

    def _more_may_come(self) -> bool:
        """Whether the peer may be sending still, as far as can be told."""
        last: RequestResponseCycle | None = self.cycle
        inside = self._head_is_open or (last is not None and last.more_body)
        return not self._peer_has_ended and (inside or self._more_is_dropped)

    def _linger(self) -> None:
        self._hears_no_more = True
        self._held = b""
        self.flow.resume_reading()
        self._watch.linger()

    def shutdown(self) -> None:
        """Let the requests that are whole be answered, and tell those whose bodies are still coming that it is over."""
        super().shutdown()
        self._held, self._hears_no_more = b"", True
        if (cycle := _unanswered(self.cycle)) is not None and cycle.more_body:
            self._more_is_dropped = True
            _cut(cycle, problem(Code.SHUTTING_DOWN, "this replica stops, and did not wait for the rest of the body"))

    # -- what comes in -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse what came in slices, and not while requests before it wait for their turn."""
        if self._hears_no_more:
            self._more_is_dropped = True
            return
        if self._held or self.pipeline:
            self._held += data
            self.flow.pause_reading()
            return
        if len(data) <= _SLICE_BYTES:
            self._parse(data)
            return
        view = memoryview(data)
        while view and not self._hears_no_more:
            if self.pipeline:
                self._held = bytes(view)
                return
            self._parse(view[:_SLICE_BYTES])
            view = view[_SLICE_BYTES:]
        self._more_is_dropped = self._more_is_dropped or bool(view)

    def on_response_complete(self) -> None:
        """Go on with what was held back."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._head_is_open:
            self._watch.expect()
        if self._held and not self.pipeline:
            held, self._held = self._held, b""
            self.data_received(held)
            if self._peer_has_ended and not self._held and self.eof_received() is None:
                self.transport.close()
        if _unanswered(self.cycle) is None:
            self._application.connections.spare(self)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Tell the application that no more will come, and keep the writing side while an answer is due."""
        self._peer_has_ended = True
        cycle = _unanswered(self.cycle)
        if cycle is None or self.transport.hung_up:
            return None
        for due in (_unanswered(self._started), cycle):
            if due is not None:
                due.scope.setdefault("extensions", {})[_ENDED] = {}
                due.message_event.set()
        if self._held:
            return True
        cycle.keep_alive = False
        _cut(cycle, problem(Code.INCOMPLETE_BODY, "the sender closed its side inside the body"))
        return True

    def _parse(self, data: bytes | memoryview) -> None:
        """Give the parser a slice, and hold what is neither body nor a whole head to about `MOST_HEAD_BYTES`; the
        parser itself would gather a head or trailers without end.
        """
        self._progress = False
        try:
            rest = self._fed(data)
            while rest is not None:
                rest = self._fed(rest)
        except httptools.HttpParserError:
            if not self._hears_no_more:
                self._refuse(self._fault or problem(Code.INVALID_REQUEST, "Invalid HTTP request received."))
            return
        self._since_progress = 0 if self._progress else self._since_progress + len(data)
        if self._since_progress > MOST_HEAD_BYTES:
            told = f"a head may have at most {MOST_HEAD_BYTES} bytes, and so may what stands between those of a body"
            self._refuse(problem(Code.TOO_LARGE, told))

    def _fed(self, data: bytes | memoryview) -> bytes | memoryview | None:
        """Parse, and give what is left behind a head that offers an upgrade.

        No other protocol is spoken here, and then a server goes on as if none were offered (RFC 9110, section 7.8). The
        parser takes all that follows such a head for that other protocol: so another one reads the head, without the
        offer, and what follows.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            head = self._framing.without_offer(self.parser, self.url, self.headers)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(head)
            return data[offer.args[0] :]
        return None

    # -- what the parser finds -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A head begins."""
        if self._hears_no_more:
            self._more_is_dropped = True
            raise StopAsyncIteration  # what follows a request that is the last of its connection is not looked at
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self._framing = Framing()
        self._fault = None
        last: RequestResponseCycle | None = self.cycle
        if last is not None and not self._head_is_open:  # the first is due since the connection was made
            self._watch.expect()
        self._head_is_open = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of a head. What stands behind a body is none: trailers are passed over (RFC 9110, section 6.5), but
        for those that the parser heeds there too.
        """
        name, value = name.lower(), value.strip(b" \t")  # the parser leaves the blanks behind a value
        if self._head_is_open:
            self.headers.append((name, value))
            if name in self._framing.FIELDS:
                self._framing.note(name, value)
        elif name in self._framing.NO_TRAILERS:
            raise ValueError(name)

    def on_headers_complete(self) -> None:
        """The head has ended."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return
        self._fault = self._framing.fault(self.parser, self.url)
        if self._fault is not None:
            raise ValueError(self._fault.detail)
        self.expect_100_continue = self._framing.expects_continue(self.parser)
        self._head_is_open, self._progress = False, True
        self._unset_keepalive_if_required()
        self._watch.rest()
        self._application.connections.busy(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._head_is_open:  # it offers an upgrade, and begins once more
            return
        self._progress = True
        super().on_message_complete()
        if not self.cycle.keep_alive:
            self._hears_no_more = True

    # -- what goes out -------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed."""
        self._refuse(problem(Code.INVALID_REQUEST, msg))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._started = cycle
        super()._start_asgi_task(cycle, _closing_unread(cycle, app) if cycle.waiting_for_100_continue else app)

    def _refuse(self, error: Problem) -> None:
        """Answer with a problem, unless another answer is on its way already, and close the connection.

        While the answer to a whole request is due, that one goes out and is the last: who sent it would take any other
        in its place.
        """
        self._hears_no_more = self._more_is_dropped = True
        if (last := self._last_whole()) is not None:
            last.keep_alive = False
            return
        cycle = _unanswered(self.cycle)
        if cycle is None or not cycle.response_started:
            read = self.headers if self._head_is_open or cycle is not None else []
            self.transport.write(_whole(self._application.refusal(error, Fields(read))))
        self.transport.close()
        if cycle is not None:
            _cut(cycle, error)

    def _last_whole(self) -> RequestResponseCycle | None:
        """The last whole request whose answer is due; one behind it whose body broke off is dropped."""
        if self.pipeline and self.pipeline[0][0].more_body:
            self.pipeline.popleft()
        cycle = self.pipeline[0][0] if self.pipeline else _unanswered(self._started)
        return None if cycle is None or cycle.more_body else cycle


def cut_for(scope: MutableMapping[str, Any]) -> Problem | None:
    """Why the body of this request ended before its end; None if it did not."""
    error: Problem | None = (scope.get("extensions") or {}).get(_CUT)
    return error


def _cut(cycle: RequestResponseCycle, error: Problem) -> None:
    """Let a body end here, if it has not ended."""
    if cycle.more_body:
        extensions: dict[str, Any] = cycle.scope.setdefault("extensions", {})  # the one place that is free for marks
        extensions[_CUT] = error
        cycle.more_body = False
        cycle.message_event.set()


def _closing_unread(cycle: RequestResponseCycle, app: Any) -> Any:
    """Close the connection behind an answer that was given before the body was asked for: whether it comes still,
    the peer alone knows, and what comes next could be taken for it.
    """

    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        async def sends(message: Any) -> None:
            if cycle.waiting_for_100_continue:
                cycle.keep_alive = False
            await send(message)

        await app(scope, receive, sends)

    return closing


async def hung_up(scope: MutableMapping[str, Any], receive: Receive) -> None:
    """Return when the peer of a request whose body was read sends no more, or is gone. Which of the two, only an answer
    would show.
    """
    while _ENDED not in (scope.get("extensions") or {}):
        if (await receive())["type"] == "http.disconnect":
            return


def _unanswered(cycle: RequestResponseCycle | None) -> RequestResponseCycle | None:
    """The request, if its answer is still due; None before the first one."""
    return None if cycle is None or cycle.response_complete else cycle


def _whole(response: Response) -> bytes:
    """The bytes of the last answer on a connection."""
    lines = [b"HTTP/1.1 %d %s" % (response.status_code, HTTPStatus(response.status_code).phrase.encode())]
    lines += [name + b": " + value for name, value in (*response.raw_headers, (b"connection", b"close"))]
    return b"\r\n".join([*lines, b"", bytes(response.body)])

"""The protocol of one connection: it answers every client that still listens, and bounds what each may take.

A client gets an answer even to a body that is cut short, and to input that is not HTTP. No client, authenticated or
not, takes more memory or time than the bounds allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, Final, cast

import httptools
from starlette.responses import Response
from starlette.types import Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.certified import note_certificate
from milepost_server.http.application import Application
from milepost_server.http.connection.closing import LingeringTransport, closing_cut, closing_unread, notice_dead_peers
from milepost_server.http.connection.heads import Framing, RequestLines
from milepost_server.http.connection.slow_peers import SlowPeerGuard
from milepost_server.http.replies import NOTE_WAITING
from milepost_server.http.requests import Fields

MOST_HEAD_BYTES: Final = 64 * 1024
"""The largest head of a request. It also bounds what may come between two bytes of a body: chunk sizes, extensions and
trailers.
"""
_SLICE_BYTES: Final = 16 * 1024
"""How many bytes are parsed at once. This bounds the requests in memory of a peer that sends many without waiting."""

_CUT = "milepost.body_cut"
_ENDED = "milepost.peer_ended"


class AnsweringProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, changed so that a half-closed connection still gets its answer, and errors are problems.

    It serves only an application that `create_app` made. uvicorn's own protocol lets the transport close itself at the
    end of file: a client that has shut down only its writing side would never learn that its body arrived incomplete,
    nor what became of a complete request. It also gathers heads and trailers without a limit, takes trailers for
    headers, and drops the body of a request that offers an upgrade.
    """

    transport: LingeringTransport
    _guard: SlowPeerGuard
    _is_certified = False
    _head_is_open = False
    _since_progress = 0
    _waiting = 0
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
        """Begin a connection: the peer has to send a first head in time."""
        notice_dead_peers(transport)
        line = LingeringTransport(transport, self._more_may_come, self._linger)
        self._guard = SlowPeerGuard(self.loop, line, self._application.idle_seconds, lambda: not self.flow.read_paused)
        self._framing = Framing()
        self._lines = RequestLines()
        super().connection_made(line)
        self._is_certified = line.get_extra_info("peer_certificate") is not None
        self._guard.expect()
        if not self._application.connections.opened(self):
            self._refuse(problem(Code.TOO_MANY_REQUESTS, "there is no room for more connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        """End everything that waits for this connection, because it is closed or lost."""
        self._guard.end()
        self._application.connections.closed(self)
        if (running := _unanswered(self._started)) is not None:  # uvicorn's protocol tells only the last request
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close the connection at once, to make room for others."""
        self.transport.abort()

    def pause_writing(self) -> None:
        """Stop sending for now, because the peer reads slowly."""
        self._application.connections.waits(self, self.transport.unsent + self._waiting)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Send again, because the peer has caught up with reading."""
        self._application.connections.flows(self)
        super().resume_writing()

    def _note_waiting(self, waiting: int) -> None:
        """Note how many bytes of an answer are in memory; one that begins behind what is unsent counts at once."""
        more, self._waiting = waiting > self._waiting, waiting
        if more and self.flow.write_paused:
            self._application.connections.waits(self, self.transport.unsent + waiting)

    def _more_may_come(self) -> bool:
        """Return whether the peer may still be sending, as far as is known."""
        last: RequestResponseCycle | None = self.cycle
        inside = self._head_is_open or (last is not None and last.more_body)
        return not self._peer_has_ended and (inside or self._more_is_dropped)

    def _linger(self) -> None:
        self._hears_no_more = True
        self._held = b""
        self.flow.resume_reading()
        self._guard.linger()

    def shutdown(self) -> None:
        """Let complete requests be answered, and refuse one whose body is still coming, because the server stops."""
        super().shutdown()
        self._held, self._hears_no_more = b"", True
        if (cycle := _unanswered(self.cycle)) is not None and cycle.more_body:
            self._more_is_dropped = True
            _cut(cycle, problem(Code.SHUTTING_DOWN, "this replica is shutting down inside the body"))

    # -- receiving -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse received data in slices, or hold it back while earlier requests of this connection wait."""
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
            self._parse(bytes(view[:_SLICE_BYTES]))
            view = view[_SLICE_BYTES:]
        self._more_is_dropped = self._more_is_dropped or bool(view)

    def on_response_complete(self) -> None:
        """Go on with the data that was held back, because a request is answered."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._head_is_open:
            self._guard.expect()
        if self._held and not self.pipeline:
            held, self._held = self._held, b""
            self.data_received(held)
            if self._peer_has_ended and not self._held and self.eof_received() is None:
                self.transport.close()
        if _unanswered(self.cycle) is None:
            self._application.connections.spare(self)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Tell the application that the peer sends no more, and keep the writing side open while an answer is due."""
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
        _cut(cycle, problem(Code.INCOMPLETE_BODY, "the client closed its side of the connection inside the body"))
        return True

    def _parse(self, data: bytes) -> None:
        """Parse a slice, and refuse more than about `MOST_HEAD_BYTES` that are neither a body nor a complete head.

        The parser itself would gather a head or trailers without a limit.
        """
        self._progress = False
        start = 0
        try:
            while start < len(data):
                part, start = self._lines.cut(data, start)
                self._feed(part)
        except httptools.HttpParserError:
            if not self._hears_no_more:
                self._refuse(self._fault or problem(Code.INVALID_REQUEST, "this is not a valid HTTP request"))
            return
        self._since_progress = 0 if self._progress else self._since_progress + len(data)
        if self._since_progress > MOST_HEAD_BYTES:
            detail = f"a head may have at most {MOST_HEAD_BYTES} bytes, and so may chunk sizes and trailers"
            self._refuse(problem(Code.TOO_LARGE, detail))

    def _feed(self, part: bytes) -> None:
        """Parse a part of what came in, which goes no further than a head or a message.

        After a head that offers to switch to another protocol, the parser takes everything for that protocol. This
        server speaks no other, and goes on as if none were offered (RFC 9110, section 7.8): a new parser reads the head
        without the offer, and what follows it.
        """
        try:
            self.parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            head = self._framing.without_offer(self.parser, self.url, self.headers)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(head)

    # -- what the parser finds -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a new head."""
        if self._hears_no_more:
            self._more_is_dropped = True
            raise StopAsyncIteration  # data after the last request of a connection is ignored
        super().on_message_begin()
        if self._is_certified:
            note_certificate(cast("MutableMapping[str, Any]", self.scope))
        self._unset_keepalive_if_required()
        self._framing = Framing()
        self._fault = None
        last: RequestResponseCycle | None = self.cycle
        if last is not None and not self._head_is_open:  # the wait for the first head began with the connection
            self._guard.expect()
        self._head_is_open = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a field of a head.

        Trailers, the fields after a body, are ignored (RFC 9110, section 6.5), except for those that the parser itself
        obeys there.
        """
        name, value = name.lower(), value.strip(b" \t")  # the parser keeps the blanks after a value
        if self._head_is_open:
            self.headers.append((name, value))
            if name in self._framing.FIELDS:
                self._framing.note(name, value)
        elif name in self._framing.NO_TRAILERS:
            raise ValueError(name)

    def on_headers_complete(self) -> None:
        """Check the complete head, and begin its request."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return
        self._fault = self._framing.fault(self.parser, self.url)
        if self._fault is not None:
            raise ValueError(self._fault.detail)
        self._lines.body_follows(self._framing.length)
        self.expect_100_continue = self._framing.expects_continue(self.parser)
        self._head_is_open, self._progress = False, True
        self._unset_keepalive_if_required()
        self._guard.rest()
        self._application.connections.busy(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Give a part of the body to the application."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        if self._head_is_open:  # it offers an upgrade, and is parsed once more
            return
        self._progress = True
        self._lines.message_ended()
        super().on_message_complete()
        if not self.cycle.keep_alive:
            self._hears_no_more = True

    # -- answering -----------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Answer input that cannot be parsed."""
        self._refuse(problem(Code.INVALID_REQUEST, msg))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._started = cycle
        extensions: dict[str, Any] = cycle.scope.setdefault("extensions", {})
        extensions[NOTE_WAITING] = self._note_waiting
        app = closing_unread(cycle, app) if cycle.waiting_for_100_continue else app
        super()._start_asgi_task(cycle, closing_cut(cycle, app))

    def _refuse(self, error: Problem) -> None:
        """Answer with a problem, unless another answer has begun, and close the connection.

        While the answer to a complete request is due, that answer is sent and is the last one: the client would take
        any other answer for it.
        """
        self._hears_no_more = self._more_is_dropped = True
        if (last := self._last_whole()) is not None:
            last.keep_alive = False
            return
        cycle = _unanswered(self.cycle)
        if cycle is None or not cycle.response_started:
            read = self.headers if self._head_is_open or cycle is not None else []
            self.transport.write(whole(self._application.refusal(error, Fields(read), self._lines.newest)))
        self.transport.close()
        if cycle is not None:
            _cut(cycle, error)

    def _last_whole(self) -> RequestResponseCycle | None:
        """Return the last complete request whose answer is due. Drop one after it whose body broke off."""
        if self.pipeline and self.pipeline[0][0].more_body:
            self.pipeline.popleft()
        cycle = self.pipeline[0][0] if self.pipeline else _unanswered(self._started)
        return None if cycle is None or cycle.more_body else cycle


def cut_for(scope: MutableMapping[str, Any]) -> Problem | None:
    """Return the problem for which the body of this request was cut short; None if it was not."""
    error: Problem | None = (scope.get("extensions") or {}).get(_CUT)
    return error


def _cut(cycle: RequestResponseCycle, error: Problem) -> None:
    """End the body of a request with ``error``, if it has not ended yet."""
    if cycle.more_body:
        extensions: dict[str, Any] = cycle.scope.setdefault("extensions", {})  # the one part that is free for marks
        extensions[_CUT] = error
        cycle.more_body = False
        cycle.message_event.set()


async def hung_up(scope: MutableMapping[str, Any], receive: Receive) -> None:
    """Return when the peer of a request whose body was read has ended its sending side, or is gone.

    Only sending an answer would show which of the two it is.
    """
    while _ENDED not in (scope.get("extensions") or {}):
        if (await receive())["type"] == "http.disconnect":
            return


def _unanswered(cycle: RequestResponseCycle | None) -> RequestResponseCycle | None:
    """Return the request if its answer is still due, else None; also None before the first request."""
    return None if cycle is None or cycle.response_complete else cycle


def whole(response: Response) -> bytes:
    """Return the bytes of an answer that is the last one on its connection."""
    lines = [b"HTTP/1.1 %d %s" % (response.status_code, HTTPStatus(response.status_code).phrase.encode())]
    fields = [(name, value) for name, value in response.raw_headers if name != b"connection"]
    lines += [name + b": " + value for name, value in (*fields, (b"connection", b"close"))]
    return b"\r\n".join([*lines, b"", bytes(response.body)])

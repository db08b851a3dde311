"""The protocol of one HTTP/1.1 connection: it answers every client that still reads, and limits the memory and time of
each client.

A client gets an answer even if its body is cut short or its input is not HTTP. The limits hold for authenticated
clients too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Protocol, cast

import httptools
import uvicorn

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.application import Application
from milepost_server.http.connection.closing import LingeringTransport, notice_dead_peers
from milepost_server.http.connection.exchange import Exchange, note_certificate, whole
from milepost_server.http.connection.heads import KEPT_BYTES, Framing, RequestLines
from milepost_server.http.connection.scopes import connection_of, scope_of
from milepost_server.http.connection.short_exchange import Missing, ShortExchange
from milepost_server.http.connection.slow_peers import SlowPeerGuard
from milepost_server.http.requests import Fields

MOST_HEAD_BYTES: Final = 64 * 1024
"""The most bytes in the head of a request. Also the most bytes of chunk sizes, chunk extensions and trailers between
two parts of a body.
"""
_HALF_SECONDS: Final = 0.1
"""The seconds for which a head on the short way waits for its body; then the request goes the long way."""
_SLICE_BYTES: Final = 16 * 1024
"""How many bytes are parsed at once. This limits how many pipelined requests of one peer are in memory."""


class ServerState(Protocol):
    """The state that uvicorn's server shares with each connection, and reads when it stops."""

    total_requests: int
    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: list[tuple[bytes, bytes]]


class HttpProtocol(asyncio.Protocol):
    """The server's side of an HTTP/1.1 connection, on top of httptools' parser. Uvicorn's server creates an object for
    each client that connects.

    The connection serves only an application that `create_app` made. It may read several requests before the first is
    answered, but no more than fit into `_SLICE_BYTES`. It passes requests to the application one at a time, in their
    order. While two requests wait for their answers, later data is not parsed. The connection stays open when the peer
    ends its sending side, so that the client still gets the answer to its last request.
    """

    _line: LingeringTransport
    _guard: SlowPeerGuard
    _about: dict[str, Any]
    _is_certified: bool

    def __init__(self, config: uvicorn.Config, server_state: ServerState, **_others: Any) -> None:
        """Create the protocol from the arguments that uvicorn passes for each connection."""
        assert isinstance(config.app, Application)
        self.application = config.app
        self._server = server_state
        self._idle_seconds = config.timeout_keep_alive
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._lines = RequestLines()
        self._framing = Framing()
        self._target = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._fault: Problem | None = None
        self._head_is_open = False
        self._progress = False
        self._since_progress = 0
        self._due: deque[Exchange | ShortExchange] = deque()
        """The requests whose answers are due. The application answers the first of them."""
        self._newest: Exchange | ShortExchange | None = None
        """The request of the last complete head, answered or not."""
        self._is_new = True
        """Whether no request has come yet."""
        self._held = b""
        self._half = b""
        """The head of a request on the short way whose body has not come yet."""
        self._half_timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._peer_has_ended = False
        self._hears_no_more = False
        self._more_is_dropped = False

    # -- the connection ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection, and wait for the head of its first request, which must come in time."""
        # a cast is needed, since uvloop's transport is not a subclass of asyncio's
        below = cast("asyncio.Transport", transport)
        notice_dead_peers(below)
        self._line = LingeringTransport(below, self._more_may_come, self._linger)
        self._guard = SlowPeerGuard(self._loop, self._line, self.application.idle_seconds)
        self._about = connection_of(below)
        self._is_certified = below.get_extra_info("peer_certificate") is not None
        self._server.connections.add(self)
        self._guard.expect()
        if not self.application.connections.opened(self):
            self._refuse(problem(Code.TOO_MANY_REQUESTS, "there is no room for more connections"))

    def connection_lost(self, _error: Exception | None) -> None:
        """End all tasks that wait for this connection, because the connection was closed or lost."""
        self._guard.end()
        self._take_half()
        self._server.connections.discard(self)
        self.application.connections.closed(self)
        for exchange in self._due:
            exchange.lose()
        self._line.drained.set()

    def give_up(self) -> None:
        """Close the connection at once, to make room for others."""
        self._line.abort()

    def pause_writing(self) -> None:
        """Stop sending for now, because the peer reads slowly."""
        self.application.connections.waits(self, self._line.unsent + self._waiting)
        self._line.drained.clear()

    def resume_writing(self) -> None:
        """Send again, because the peer has caught up with reading."""
        self.application.connections.flows(self)
        self._line.drained.set()

    def _note_waiting(self, waiting: int) -> None:
        """Note how many bytes of an answer wait in memory. If the number grows while the peer reads slowly, report the
        number to `Connections` at once.
        """
        more, self._waiting = waiting > self._waiting, waiting
        if more and not self._line.drained.is_set():
            self.application.connections.waits(self, self._line.unsent + waiting)

    def _more_may_come(self) -> bool:
        """Return whether the peer may still be sending, as far as this server knows."""
        inside = self._head_is_open or (self._newest is not None and self._newest.more_body)
        return not self._peer_has_ended and (inside or self._more_is_dropped)

    def _linger(self) -> None:
        self._hears_no_more = True
        self._held = b""
        self._line.resume_reading()
        self._guard.linger()

    def shutdown(self) -> None:
        """Prepare for the end of the server: let complete requests be answered, and end an incomplete body with a
        problem.
        """
        self._parse_half()
        newest = self._due[-1] if self._due else None
        if newest is None:
            self._line.close()
        else:
            newest.keep_alive = False
        self._held, self._hears_no_more = b"", True
        if newest is not None and newest.more_body:
            self._more_is_dropped = True
            newest.end_body(problem(Code.SHUTTING_DOWN, "this replica is shutting down inside the body"))

    # -- receiving -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse received data, or hold the data back while earlier requests of this connection wait."""
        if self._hears_no_more:
            self._more_is_dropped = True
            return
        has_head = bool(self._half)
        if has_head:
            data = self._take_half() + data
        if self._is_between_requests and self._answer_shortly(data, may_wait=not has_head):
            return
        self._receive(data)

    def _receive(self, data: bytes) -> None:
        waits = bool(self._held) or len(self._due) > 1
        self._held += data
        if waits:
            self._line.pause_reading()
        else:
            self._parse_held()

    def _read_on(self) -> None:
        """Read from the peer again, unless data is still held back: each reading may bring much more than the requests
        that were answered since the last one.
        """
        if not self._held:
            self._line.resume_reading()

    @property
    def _is_between_requests(self) -> bool:
        """Whether all earlier requests of the connection are complete and answered, and the peer reads fast enough."""
        return (
            not (self._due or self._held or self._head_is_open or self._peer_has_ended)
            and not (self._newest is not None and self._newest.more_body)
            and self._lines.between_requests
            and self._line.drained.is_set()
            and not self._line.is_closing()
        )

    def _answer_shortly(self, data: bytes, *, may_wait: bool) -> bool:
        """Answer a request that needs neither the parser nor the endpoints; return False if it needs them. If
        ``may_wait``, a head may wait here for its body.
        """
        answer = self.application.short_way.answer(data, self._server.default_headers)
        connections = self.application.connections
        if answer is None or (isinstance(answer, Missing) and not (may_wait and connections.hold_head())):
            return False
        connections.busy(self)
        self._lines.newest = data[:KEPT_BYTES]
        if isinstance(answer, Missing):
            self._guard.rest()
            self._half, self._half_timer = data, self._loop.call_later(_HALF_SECONDS, self._parse_half)
            return True
        self._is_new, self._since_progress = False, 0
        if isinstance(answer, bytes):
            self._line.write(answer)
            self._server.total_requests += 1
            self._guard.idle(self._idle_seconds)
            connections.spare(self)
        else:
            self._guard.rest()
            self._newest = exchange = ShortExchange(self._line, self._answered)
            self._due.append(exchange)
            self._run(exchange.answer(answer))
        return True

    def _take_half(self) -> bytes:
        half, self._half = self._half, b""
        if self._half_timer is not None:
            self._half_timer.cancel()
            self._half_timer = None
            self.application.connections.release_head()
        return half

    def _parse_half(self) -> None:
        """Parse a head that has waited for its body long enough, or whose connection ends."""
        if half := self._take_half():
            self._receive(half)

    def eof_received(self) -> bool:
        """Tell the application that the peer sends no more. Return True, to keep the writing side open, while an answer
        is due; else False.
        """
        self._parse_half()
        self._peer_has_ended = True
        if not self._due or self._line.hung_up:
            return False
        for exchange in self._due:
            exchange.end_peer()
        if not self._held:
            newest = self._due[-1]
            newest.keep_alive = False
            detail = "the client closed its side of the connection inside the body"
            newest.end_body(problem(Code.INCOMPLETE_BODY, detail))
        return True

    def _parse_held(self) -> None:
        """Parse the received data that was held back, slice by slice, until none is left or a second request waits for
        its turn.
        """
        data, at = self._held, 0
        while at < len(data) and len(self._due) < 2 and not self._hears_no_more:
            self._parse(data[at : at + _SLICE_BYTES])
            at += _SLICE_BYTES
        self._held = data[at:]
        if self._hears_no_more and self._held:
            self._held, self._more_is_dropped = b"", True

    def _parse(self, data: bytes) -> None:
        """Parse a slice of received data. Refuse input if more than about `MOST_HEAD_BYTES` come that neither complete
        a head nor contain a part of a body.

        The parser itself would collect a head or trailers without a limit.
        """
        self._progress = False
        start = 0
        try:
            while start < len(data) and not self._hears_no_more:
                part, start = self._lines.cut(data, start)
                self._feed(part)
        except httptools.HttpParserError:
            self._refuse(self._fault or problem(Code.INVALID_REQUEST, "this is not a valid HTTP request"))
            return
        self._more_is_dropped = self._more_is_dropped or start < len(data)
        self._since_progress = 0 if self._progress else self._since_progress + len(data)
        if self._since_progress > MOST_HEAD_BYTES:
            detail = f"a head may have at most {MOST_HEAD_BYTES} bytes, and so may chunk sizes and trailers"
            self._refuse(problem(Code.TOO_LARGE, detail))

    def _feed(self, part: bytes) -> None:
        """Parse a part of received data, which ends at the end of a head or of a message at the latest.

        This server ignores an offer to switch to another protocol, as RFC 9110 (section 7.8) allows. But after a head
        with such an offer, the parser parses no more HTTP. So a new parser reads the same head without the offer, and
        all data after it.
        """
        try:
            self._parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            head = self._framing.without_offer(self._parser, self._target, self._fields)
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(head)

    # -- called by the parser ------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin to read the head of a request, which must be complete in time."""
        self._target, self._fields, self._framing, self._fault = b"", [], Framing(), None
        # the time limit for the first head began with the connection
        if not (self._is_new or self._head_is_open):
            self._guard.expect()
        self._head_is_open = True

    def on_url(self, part: bytes) -> None:
        """Note a part of the request's target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header field or a trailer.

        Trailers, the fields after a body, are ignored (RFC 9110, section 6.5). A trailer that would change how the
        parser reads the message raises ValueError.
        """
        name, value = name.lower(), value.strip(b" \t")  # the parser leaves white space at the end of a value
        if self._head_is_open:
            self._fields.append((name, value))
            if name in self._framing.FIELDS:
                self._framing.note(name, value)
        elif name in self._framing.NO_TRAILERS:
            raise ValueError(name)

    def on_headers_complete(self) -> None:
        """Check the head of a request, which is complete now, and begin to answer the request if it is its turn."""
        parser = self._parser
        if parser.should_upgrade() and parser.get_method() != b"CONNECT":
            return
        self._fault = self._framing.fault(parser, self._target)
        if self._fault is not None:
            raise ValueError(self._fault.detail)
        scope = scope_of(parser, self._target, self._fields, self._about)
        if self._is_certified:
            note_certificate(scope)
        exchange = Exchange(
            scope,
            self._line,
            self._server.default_headers,
            keep_alive=scope["http_version"] != "1.0" and parser.should_keep_alive(),
            awaits_continue=self._framing.expects_continue(parser),
            answered=self._answered,
            read_on=self._read_on,
            note_waiting=self._note_waiting,
        )
        self._lines.body_follows(self._framing.length)
        self._is_new, self._head_is_open, self._progress = False, False, True
        self._guard.rest()
        self.application.connections.busy(self)
        self._newest = exchange
        self._due.append(exchange)
        if len(self._due) > 1:
            self._line.pause_reading()
        else:
            self._start(exchange)

    def on_body(self, part: bytes) -> None:
        """Give a part of the body to the application."""
        assert self._newest is not None
        self._progress = True
        self._newest.take(part)

    def on_message_complete(self) -> None:
        """Note that the parser has read a complete request."""
        # a head that offers an upgrade is not complete yet: a new parser reads it again without the offer
        if self._head_is_open:
            return
        assert self._newest is not None
        self._progress = True
        self._lines.message_ended()
        self._newest.end_body()
        if not self._newest.keep_alive:
            self._hears_no_more = True

    # -- answering -----------------------------------------------------------------------------------------------------

    def _start(self, exchange: Exchange | ShortExchange) -> None:
        """Let the application answer a request whose turn has come, since all earlier ones are answered."""
        assert isinstance(exchange, Exchange)  # one of the short way begins at once
        self._run(exchange.answer(self.application))

    def _run(self, answering: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(answering)
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    def _answered(self) -> None:
        """Begin the next request, or parse data that was held back, because a request was answered."""
        self._server.total_requests += 1
        if self._line.is_closing():
            return
        self._due.popleft()
        self._read_on()
        if self._head_is_open:
            self._guard.expect()
        elif not self._due:
            self._guard.idle(self._idle_seconds)
        if self._due:
            self._start(self._due[0])
        if self._held and len(self._due) < 2:
            self._parse_held()
            if len(self._due) < 2:
                self._read_on()
            if self._peer_has_ended and not self._held and not self.eof_received():
                self._line.close()
        if not self._due:
            self.application.connections.spare(self)

    def _refuse(self, error: Problem) -> None:
        """Answer invalid input with the problem ``error``, unless an answer has begun, and close the connection.

        If an earlier request still waits for its answer, that answer is sent instead as the last one, since the client
        would take the problem for the answer to its earlier request.
        """
        self._hears_no_more = self._more_is_dropped = True
        if len(self._due) > 1 and self._due[-1].more_body:
            self._due.pop()
        newest = self._due[-1] if self._due else None
        if newest is not None and not newest.more_body:
            newest.keep_alive = False
            return
        if newest is None or not newest.has_begun:
            read = self._fields if self._head_is_open or newest is not None else []
            self._line.write(whole(self.application.refusal(error, Fields(read), self._lines.newest)))
        self._line.close()
        if newest is not None:
            newest.end_body(error)

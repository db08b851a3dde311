"""One request and its answer on a connection of HTTP/1.1: ASGI messages to the application, bytes to the client."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cache, lru_cache
from http import HTTPStatus
from typing import Any, Final, Protocol

from starlette.responses import Response
from starlette.types import ASGIApp, Message

from milepost.errors import Problem
from milepost_server.blobs.delivery import DeliveryCut
from milepost_server.http.connection.closing import LingeringTransport

log = logging.getLogger("milepost.http")

_MOST_BODY_BYTES: Final = 64 * 1024
"""While more than this many bytes of a body wait for the application, nothing is read from its connection."""
_TOGETHER_BYTES: Final = 16 * 1024
"""The most bytes of a part of an answer that are copied behind its head."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_FAILED: Final = b"Internal Server Error"
_FAILED_FIELDS: Final = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", b"%d" % len(_FAILED)),
    (b"connection", b"close"),
)
_WITHOUT_BODY: Final = frozenset({204, 304})

_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

EXTENSION: Final = "milepost.exchange"
"""The extension of a scope that holds the exchange while the application answers the request."""
_CERTIFIED: Final = "milepost.certified"


class Exchange:
    """A request whose head is complete, and its answer.

    The connection passes the body to the exchange, and calls `answer` once earlier requests are answered. ``scope`` is
    the head, as ASGI describes it; ``common`` has the fields that each answer begins with. ``awaits_continue``: the
    client sends the body only after ``100 Continue``. The exchange calls ``answered`` when the answer is complete, and
    ``read_on`` when there is room for more of the body. An answer calls ``note_waiting`` with the number of its bytes
    that are in memory and not being sent yet.
    """

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        line: LingeringTransport,
        common: Sequence[tuple[bytes, bytes]],
        *,
        keep_alive: bool,
        awaits_continue: bool,
        answered: Callable[[], None],
        read_on: Callable[[], None],
        note_waiting: Callable[[int], None],
    ) -> None:
        self.keep_alive = keep_alive
        """Whether the connection stays open after the answer."""
        self.more_body = True
        """Whether more of the request's body may come."""
        self.cut: Problem | None = None
        """The problem for which the request's body ended early; None if it did not."""
        self.has_begun = False
        """Whether the head of the answer was sent."""
        self.note_waiting = note_waiting
        self._scope = scope
        self._line = line
        self._common = common
        self._awaits_continue = awaits_continue
        self._answered = answered
        self._read_on = read_on
        self._is_head = scope["method"] == "HEAD"
        self._body = bytearray()
        self._news = asyncio.Event()
        self._peer_has_ended = False
        self._is_lost = False
        self._is_received = False
        self._is_complete = False
        self._is_chunked = False
        self._ends_by_closing = False
        self._left = 0
        self._head = b""
        """The head of an answer with a known length, which is sent with the first part of the body."""

    # -- called by the connection --------------------------------------------------------------------------------------

    def take(self, part: bytes) -> None:
        """Keep a part of the body for the application, unless the answer is already complete."""
        if self._is_complete:
            return
        self._body += part
        if len(self._body) > _MOST_BODY_BYTES:
            self._line.pause_reading()
        self._news.set()

    def end_body(self, error: Problem | None = None) -> None:
        """Note that no more of the body comes, because the body is complete, or because of ``error``."""
        if self.more_body:
            self.more_body, self.cut = False, error
            self._news.set()

    def end_peer(self) -> None:
        """Note that the client has ended its sending side. It may still wait for the answer."""
        self._peer_has_ended = True
        self._news.set()

    def lose(self) -> None:
        """Note that the connection is lost."""
        self._is_lost = True
        self._news.set()

    async def answer(self, app: ASGIApp) -> None:
        """Let the application answer the request. If the application fails or leaves the answer incomplete, end the
        answer as a server error.
        """
        scope = self._scope
        extensions: dict[str, Any] = scope["extensions"]
        extensions[EXTENSION] = self
        try:
            await app(scope, self.receive, self.send)
        except DeliveryCut as error:
            log.error("cut the answer to %s %s: %s", scope["method"], scope["path"], error)
        except Exception:  # after any exception of the application, `_break_off` ends the answer to the client
            log.exception("the answer to %s %s failed", scope["method"], scope["path"])
        else:
            if not self._is_over:
                log.error("the answer to %s %s has no end", scope["method"], scope["path"])
        finally:
            # break the reference cycle between exchange and scope, which would keep both in memory
            del extensions[EXTENSION]
            if not self._is_over:
                self._break_off()

    # -- called by the application -------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """Wait until a part or the end of the body comes, the client ends its sending side, or the exchange is over;
        return this as an ASGI message.
        """
        if self._awaits_continue and not self._line.is_closing():
            self._awaits_continue = False
            self._line.write(_CONTINUE)
        if not self._is_over:
            self._read_on()
            await self._news.wait()
            self._news.clear()
        if self._is_over:
            return {"type": "http.disconnect"}
        body, self._body, self._is_received = bytes(self._body), bytearray(), True
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def take_whole(self) -> bytes | None:
        """Return the body and count it as received, if all of it has come and none was received before; else None."""
        if self.more_body or self._awaits_continue or self._is_received or self._is_over or self.cut is not None:
            return None
        self._is_received = True
        self._read_on()
        body, self._body = bytes(self._body), bytearray()
        self._news.clear()
        return body

    async def send(self, message: Message) -> None:
        """Send the head of the answer or a part of its body, once the peer has read enough of what was sent before.

        Raises ValueError or RuntimeError for a message that does not make a valid HTTP answer.
        """
        await self._line.drained.wait()
        if self._is_lost:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        else:
            self._go_on(message.get("body", b""), more=message.get("more_body", False))

    async def reply(self, response: Response) -> None:
        """Send an answer whose body is in memory, as the application would by `send`."""
        if not self._line.drained.is_set():
            await self._line.drained.wait()
        if not self._is_lost:
            self._begin(response.status_code, response.raw_headers)
            self._go_on(response.body, more=False)

    async def hung_up(self) -> None:
        """Return once the client has ended its sending side or is gone. Call this only after the request's body was
        read.

        The server cannot tell a client that only sends no more from one that is gone, until it sends the answer.
        """
        while not self._peer_has_ended and (await self.receive())["type"] != "http.disconnect":
            pass

    # -- the answer ----------------------------------------------------------------------------------------------------

    @property
    def _is_over(self) -> bool:
        return self._is_complete or self._is_lost

    def _begin(self, status: int, given: Iterable[tuple[bytes, bytes]]) -> None:
        if self.has_begun:
            raise RuntimeError("an answer has one head")
        fields = [*self._common, *given]
        known = dict(fields)
        said = known.get(b"connection") == b"close"
        # A client that got no `100 Continue` may now send its body or a new request. The server cannot tell which,
        # so it closes the connection.
        self.keep_alive = self.keep_alive and not (said or self._awaits_continue)
        if not (self.keep_alive or said):
            fields.append((b"connection", b"close"))
        length = known.get(b"content-length")
        has_no_length = length is None and not self._is_head and status not in _WITHOUT_BODY
        # a client of HTTP/1.0 knows no chunks; its connection is closed after each answer
        self._ends_by_closing = has_no_length and self._scope.get("http_version") == "1.0"
        self._is_chunked = has_no_length and not self._ends_by_closing
        self._left = 0 if length is None or self._is_head else int(length)
        if self._is_chunked:
            fields.append((b"transfer-encoding", b"chunked"))
        encoded = head(status, fields)
        self.has_begun, self._awaits_continue = True, False
        if length is None or self._is_head:
            self._line.write(encoded)
        else:
            self._head = encoded

    def _go_on(self, part: bytes | memoryview, *, more: bool) -> None:
        if not self.has_begun or self._is_complete:
            raise RuntimeError("a part of an answer comes behind its head, and before its end")
        if self._is_chunked:
            if part:
                self._line.write(b"".join((b"%x\r\n" % len(part), part, b"\r\n")))
            if not more:
                self._line.write(b"0\r\n\r\n")
        elif self._ends_by_closing:
            self._line.write(part)
        elif not self._is_head:
            self._left -= len(part)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("an answer is longer or shorter than its Content-Length")
            self._write_behind_head(part)
        if not more:
            self._is_complete = True
            self._body.clear()
            self._news.set()
            if not self.keep_alive:
                self._line.close()
            self._answered()

    def _write_behind_head(self, part: bytes | memoryview) -> None:
        """Write a part of an answer with a known length, with its head if that was not sent before."""
        if self._head:
            # one call of the system for a short answer; a long part is not copied
            if len(part) <= _TOGETHER_BYTES:
                self._line.write(self._head + bytes(part))
                part = b""
            else:
                self._line.write(self._head)
            self._head = b""
        if part:
            self._line.write(part)

    def _break_off(self) -> None:
        """End an answer that the application did not complete: with status 500, or by closing the connection if the
        head of the answer was already sent.
        """
        if self.has_begun:
            self._write_behind_head(b"")
            self._line.close()
        else:
            self._begin(500, _FAILED_FIELDS)
            self._go_on(_FAILED, more=False)


class Answering(Protocol):
    """What the application knows of the exchange of a request: the methods of `Exchange` that it calls."""

    @property
    def cut(self) -> Problem | None: ...

    def note_waiting(self, waiting: int, /) -> None: ...

    def take_whole(self) -> bytes | None: ...

    async def reply(self, response: Response) -> None: ...

    async def hung_up(self) -> None: ...


def exchange_of(scope: MutableMapping[str, Any]) -> Answering:
    """Return the exchange of the request with this ASGI scope. Call this only while the application answers the
    request.
    """
    exchange: Answering = scope["extensions"][EXTENSION]
    return exchange


def note_certificate(scope: MutableMapping[str, Any]) -> None:
    """Note that the client of this request has presented a certificate."""
    scope.setdefault("extensions", {})[_CERTIFIED] = {}


def is_certified(scope: Mapping[str, Any]) -> bool:
    """Return whether the client of this request has presented a certificate."""
    return _CERTIFIED in (scope.get("extensions") or {})


def head(status: int, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the bytes of the head of an answer: its status line and its header fields.

    Raises ValueError for a field that HTTP does not allow, such as one whose value contains a line break.
    """
    lines = [_status_line(status)]
    for name, value in fields:
        if not (_is_name(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"this is no field of an answer: {name!r}: {value!r}")
        lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join([*lines, b"", b""])


@lru_cache(256)
def _is_name(name: bytes) -> bool:
    return _NAME.fullmatch(name) is not None


@cache
def _status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())


def whole(response: Response) -> bytes:
    """Return the bytes of a complete answer that is the last one on its connection."""
    fields = [(name, value) for name, value in response.raw_headers if name != b"connection"]
    return head(response.status_code, [*fields, (b"connection", b"close")]) + bytes(response.body)

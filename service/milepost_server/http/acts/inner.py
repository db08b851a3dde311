"""Answers a request that this process makes itself, without a connection, by the same application as all others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message

from milepost.errors import Problem
from milepost_server.http.connection.exchange import EXTENSION, is_certified, note_certificate

MOST_ANSWER_BYTES: Final = 32 * 1024 * 1024


class AnswerTooLong(Exception):
    """The answer has more than `MOST_ANSWER_BYTES` bytes."""


@dataclass(frozen=True, slots=True)
class InnerRequest:
    """A request: its method, its target, and its body. ``fields`` are its header fields, with names in lower case."""

    method: str
    target: str
    fields: Sequence[tuple[bytes, bytes]]
    body: bytes


class InnerExchange:
    """A request whose body is complete, and its answer, which is kept in memory."""

    cut: Problem | None = None

    def __init__(self, body: bytes) -> None:
        self.status = 0
        self.fields: Sequence[tuple[bytes, bytes]] = ()
        self.content = bytearray()
        self._body: bytes | None = body
        self._is_over = asyncio.Event()

    def note_waiting(self, _: int) -> None:
        """Do nothing: no peer reads the answer slowly."""

    def take_whole(self) -> bytes | None:
        """Return the body once, then None."""
        body, self._body = self._body, None
        return body

    async def receive(self) -> Message:
        """Return the body once; then wait for the end of the exchange."""
        if (body := self.take_whole()) is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Keep the head of the answer, or a part of its body. Raises `AnswerTooLong`, before a body of known length."""
        if message["type"] == "http.response.start":
            self.status, self.fields = message["status"], message.get("headers", ())
            _check_length(int(dict(self.fields).get(b"content-length", 0)))
            return
        self.content += message.get("body", b"")
        _check_length(len(self.content))
        if not message.get("more_body", False):
            self._is_over.set()

    async def reply(self, response: Response) -> None:
        """Keep an answer whose body is in memory."""
        self.status, self.fields, self.content = response.status_code, response.raw_headers, bytearray(response.body)
        self._is_over.set()

    async def hung_up(self) -> None:
        """Return at the end of the exchange: the client does not end before."""
        await self._is_over.wait()


def _check_length(length: int) -> None:
    if length > MOST_ANSWER_BYTES:
        raise AnswerTooLong(f"an answer has {length} bytes or more, and an act takes {MOST_ANSWER_BYTES} at most")


async def answer_of(application: ASGIApp, request: InnerRequest, outer: Mapping[str, Any]) -> InnerExchange:
    """Let the application answer a request that is made for the request with the scope ``outer``, and return the
    exchange with the answer. Raises `AnswerTooLong`, and what the application raises.
    """
    path, _, query = request.target.encode("ascii").partition(b"?")
    exchange = InnerExchange(request.body)
    scope: dict[str, Any] = {
        **{name: outer[name] for name in ("type", "asgi", "http_version", "scheme", "client", "server")},
        "method": request.method,
        "path": path.decode("ascii"),
        "raw_path": path,
        "query_string": query,
        "headers": list(request.fields),
        "extensions": {EXTENSION: exchange},
    }
    if is_certified(outer):
        note_certificate(scope)
    await application(scope, exchange.receive, exchange.send)
    return exchange

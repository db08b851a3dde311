"""One request by HTTP and its answer, between the real client and the real application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

from milepost.core.body import Body
from milepost.core.effects import Answer, Lost, Send
from milepost_server.http.connection.exchange import Exchange
from milepost_server.http.connection.scopes import _ASGI
from tests.simulation.world.loop import VirtualLoop

_FAILED = b'"code":"internal"'


class _Wire:
    """What an exchange needs of its connection, which takes everything at once."""

    def __init__(self) -> None:
        self.drained = asyncio.Event()
        self.drained.set()

    def pause_reading(self) -> None:
        """Nothing is to come."""

    def is_closing(self) -> bool:
        """It is open until the answer is complete."""
        return False

    def close(self) -> None:
        """Nothing is to be closed."""


class _Recorded(Exchange):
    """Keeps the parts of the answer as they are given, and encodes nothing."""

    status = 0

    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        wire: Any = _Wire()
        super().__init__(
            scope,
            wire,
            (),
            keep_alive=True,
            awaits_continue=False,
            answered=lambda: None,
            read_on=lambda: None,
            note_waiting=lambda _: None,
        )
        self.fields: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.take(body)
        self.end_body()

    def _begin(self, status: int, given: Iterable[tuple[bytes, bytes]]) -> None:
        self.has_begun, self.status = True, status
        self.fields = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in given}

    def _go_on(self, part: bytes | memoryview, *, more: bool) -> None:
        self.parts.append(bytes(part))
        if not more:
            self._is_complete = True
            self._news.set()


class Conversation:
    """A request on its way. ``end`` is given what its client gets, if that still waits."""

    def __init__(self, loop: VirtualLoop, send: Send, body: bytes, end: Callable[[Answer | Lost], None]) -> None:
        self._loop = loop
        self._end = end
        url = urlsplit(send.url)
        self.address = f"{url.scheme}://{url.netloc}"
        self.line = f"{send.method} {send.url}"
        fields = {"host": url.netloc, **{name.lower(): value for name, value in send.headers.items()}}
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": "1.1",
            "scheme": url.scheme,
            "method": send.method,
            "path": unquote(url.path),
            "raw_path": url.path.encode(),
            "query_string": url.query.encode(),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()],
            "extensions": {},
            "client": None,
            "server": None,
        }
        self.exchange = _Recorded(scope, body)

    @property
    def body(self) -> bytes:
        """What has been answered so far."""
        return b"".join(self.exchange.parts)

    @property
    def failed(self) -> bool:
        """Whether the application has met with an error that it did not expect."""
        status = self.exchange.status
        if self.exchange._is_lost:
            return False  # nobody waits for the answer any more
        return status == 0 or (status == 500 and (_FAILED in self.body or not self.body.startswith(b"{")))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something once a message has had its time."""
        self._loop.call_later(seconds, act, context=self._loop.outside)

    def answered(self) -> None:
        """The answer arrives."""
        self._end(Answer(self.exchange.status, self.exchange.fields, self.body))

    def unreachable(self) -> None:
        """Nobody listens at the address."""
        self._end(Lost("nobody listens", sent=False, unreachable=True))

    def broken(self) -> None:
        """The connection breaks."""
        self._end(Lost("the connection broke", sent=True))


def content_of(body: Body | None) -> bytes:
    """The bytes of a request."""
    if body is None:
        return b""
    content = body.begin()
    if isinstance(content, bytes):
        return content
    assert not hasattr(content, "__anext__"), "no program here sends what it has yet to await"
    return b"".join(content)

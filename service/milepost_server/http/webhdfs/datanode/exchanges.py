"""Sends HTTP messages to other replicas and returns their answers, over connections that are reused.

The messages are short, and a client waits for each. A general HTTP client would take several times as long for one
message (docs/decisions/0054).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import SplitResult, urlsplit

import httptools

_CONNECT_SECONDS: Final = 2.0
_KEPT_SECONDS: Final = 5.0
"""The seconds for which an unused connection is kept. The server at its other end keeps it much longer."""
_MOST: Final = 100
"""The most messages to one address that are in flight at a time; further messages to it wait. Messages to other
addresses do not wait, so that a leader that no longer answers delays no message to its successor.
"""
_MOST_ANSWER_BYTES: Final = 256 * 1024
_PORTS: Final = {"http": 80, "https": 443}


class NotReached(Exception):
    """Raised if no connection to the replica could be made, so that the message was certainly not received."""


class NoAnswer(Exception):
    """Raised if the message may have been received, but no valid answer came."""


@dataclass
class Answer:
    """The answer to a message. The names in ``headers`` are in lower case."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""


class _Connection(asyncio.Protocol):
    """A connection to the address of another replica. It carries one message and its answer at a time.

    ``usable`` is whether it can carry another message; it cannot after data that answers no message. ``until`` is the
    time at which the connection is too old to be reused.
    """

    def __init__(self) -> None:
        self.usable = False
        self.until = 0.0
        self._transport: asyncio.Transport | None = None
        self._answer = Answer()
        self._parser = httptools.HttpResponseParser(self)
        self._received = 0
        self._most = 0
        self._ended: asyncio.Future[Answer] | None = None

    async def exchange(self, message: bytes, most: int) -> Answer:
        """Send a message and return the answer, which has ``most`` bytes at most. Raises OSError, EOFError and the
        parser's errors.
        """
        self.usable, self._most = False, most
        if self._transport is None or self._transport.is_closing():
            raise EOFError("the connection has ended")
        self._answer, self._parser, self._received = Answer(), httptools.HttpResponseParser(self), 0
        self._ended = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(message)
            return await self._ended
        finally:
            self._ended = None

    def close(self) -> None:
        """Close the connection at once."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    # -- callbacks of the transport and the parser ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection, which can carry a message from now on."""
        # a cast is needed, since uvloop's transport is not a subclass of asyncio's
        self._transport, self.usable = cast("asyncio.Transport", transport), True

    def data_received(self, data: bytes) -> None:
        """Parse a part of the answer. Data that comes while no message waits for its answer ends the connection."""
        if not self._waits:
            self.close()
            return
        self._received += len(data)
        try:
            if self._received > self._most:
                raise EOFError(f"the answer has more than {self._most} bytes")
            self._parser.feed_data(data)
        except (httptools.HttpParserError, EOFError) as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is closed or lost, and fail the message that waits for its answer."""
        self.usable = False
        self._fail(exc or EOFError(f"the connection ended after {self._received} bytes of the answer"))

    def _fail(self, error: Exception) -> None:
        if self._ended is not None and self._waits:
            self._ended.set_exception(error)
        self.close()

    @property
    def _waits(self) -> bool:
        return self._ended is not None and not self._ended.done()

    def on_message_begin(self) -> None:
        """Begin an answer. A second answer to the same message makes the connection unusable."""
        if not self._waits:
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header of the answer."""
        if self._waits:
            self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_body(self, body: bytes) -> None:
        """Store a part of the answer's body."""
        if self._waits:
            self._answer.content += body

    def on_message_complete(self) -> None:
        """Note that the answer is complete, and pass it to the waiting sender."""
        if self._ended is not None and self._waits:
            self._answer.status, self.usable = self._parser.get_status_code(), self._parser.should_keep_alive()
            self._ended.set_result(self._answer)


@dataclass
class _Place:
    """The connections to one address: those that are ``kept`` to be used again, and the number of ``users``, the
    callers that send a message or wait to send one.
    """

    room: asyncio.Semaphore
    kept: list[_Connection] = field(default_factory=list)
    users: int = 0


class Exchanges:
    """Sends messages to other replicas, and keeps the connections to them. ``clock`` returns monotonic seconds.

    ``tls`` is called for each new encrypted connection, and returns its TLS context.
    """

    def __init__(self, clock: Callable[[], float], tls: Callable[[], ssl.SSLContext]) -> None:
        self._clock = clock
        self._tls = tls
        self._places: dict[tuple[str, str], _Place] = {}

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], seconds: float) -> Answer:
        """Send a message and return the answer to it. Raises `NotReached`, and `NoAnswer` if none comes within
        ``seconds``.

        A kept connection may have ended unnoticed. Then it is unknown whether the message was received, so this method
        does not send the message again.
        """
        target = urlsplit(url)
        return await self._sent(target, post_message(target, body, headers), seconds, _MOST_ANSWER_BYTES)

    async def get(self, url: str, headers: Mapping[str, str], seconds: float, most: int) -> Answer:
        """Read what is at an address, and return the answer, which has ``most`` bytes at most. Raises `NotReached`, and
        `NoAnswer` if no such answer comes within ``seconds``. No redirect is followed.
        """
        target = urlsplit(url)
        asked = f"{target.path}?{target.query}" if target.query else target.path
        lines = [f"GET {asked or '/'} HTTP/1.1", f"Host: {target.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        message = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return await self._sent(target._replace(query=""), message, seconds, most)

    async def _sent(self, target: SplitResult, message: bytes, seconds: float, most: int) -> Answer:
        end = self._clock() + seconds
        self._close_old()
        place = self._places.setdefault((target.scheme, target.netloc), _Place(asyncio.Semaphore(_MOST)))
        place.users += 1
        try:
            return await self._in_turn(place, target, message, end, most)
        finally:
            place.users -= 1

    async def _in_turn(self, place: _Place, target: SplitResult, message: bytes, end: float, most: int) -> Answer:
        try:
            async with asyncio.timeout(min(end - self._clock(), _CONNECT_SECONDS)):
                await place.room.acquire()
        except TimeoutError as error:
            raise NotReached(f"{target.geturl()}: {_MOST} messages are under way already") from error
        try:
            connection = await self._usable(place, target, end)
            return await self._exchanged(connection, place, target, message, end, most)
        finally:
            place.room.release()

    async def _usable(self, place: _Place, target: SplitResult, end: float) -> _Connection:
        """Return a connection to the address: the one of the kept connections that was used last, or a new one if none
        is kept.
        """
        while place.kept:
            connection = place.kept.pop()
            if connection.usable and connection.until > self._clock():
                return connection
            connection.close()
        return await self._connected(target, end - self._clock())

    async def _exchanged(
        self, connection: _Connection, place: _Place, target: SplitResult, message: bytes, end: float, most: int
    ) -> Answer:
        try:
            async with asyncio.timeout(max(0.0, end - self._clock())):
                return await connection.exchange(message, most)
        except (OSError, EOFError, httptools.HttpParserError) as error:  # OSError includes TimeoutError
            raise NoAnswer(f"{target.geturl()}: {error!r}") from error
        finally:
            if connection.usable:
                connection.until = self._clock() + _KEPT_SECONDS
                place.kept.append(connection)
            else:
                connection.close()

    def _close_old(self) -> None:
        """Close the kept connections that are too old or have ended, and forget addresses without users."""
        now = self._clock()
        for key, place in list(self._places.items()):
            for connection in [each for each in place.kept if each.until <= now or not each.usable]:
                place.kept.remove(connection)
                connection.close()
            if not place.kept and not place.users:
                del self._places[key]

    async def _connected(self, place: SplitResult, seconds: float) -> _Connection:
        if not place.hostname:
            raise NotReached(f"{place.geturl()} is no address")
        try:
            port = place.port or _PORTS[place.scheme]
            tls = self._tls() if place.scheme == "https" else None
            async with asyncio.timeout(min(seconds, _CONNECT_SECONDS)):
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(_Connection, place.hostname, port, ssl=tls)
                return connection
        except (OSError, ValueError, KeyError) as error:
            # a URL with an invalid port raises ValueError, one that is neither http nor https KeyError
            raise NotReached(f"{place.geturl()}: {error!r}") from error

    def close(self) -> None:
        """Close all kept connections."""
        for place in self._places.values():
            for connection in place.kept:
                connection.close()
        self._places.clear()


def post_message(place: SplitResult, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the bytes of a message to an address. The leader knows this form of a head: see `ShortWay`."""
    lines = [f"POST {place.path or '/'} HTTP/1.1", f"Host: {place.netloc}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

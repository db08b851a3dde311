"""A server of HTTP that follows a script, on a free port: what a real server cannot be made to show.

Each request meets the next behaviour of the script; a connection stays open between them unless a behaviour ends it.
The server lives in threads, so blocking code can call it, and so can a test on an event loop.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

DEADLINE_SECONDS = 30.0


class Hangup(Exception):
    """The behaviour ended the connection."""


@dataclass
class Seen:
    """A request as it arrived; ``body`` is None where it did not arrive whole."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None = None


Behaviour = Callable[["ScriptedServer", socket.socket, Seen, Callable[[], None]], None]


class ScriptedServer:
    """The server, as a context manager; it ends TLS if it is told how.

    ``seen`` is every request in the order of arrival. ``gone`` is set once a connection has ended. A request for which
    the script has no behaviour left fails the test.
    """

    def __init__(self, script: Iterable[Behaviour], tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.gone = threading.Event()
        self.release = threading.Event()
        self._script = iter(script)
        self._tls = tls
        self._connections: list[socket.socket] = []

    def __enter__(self) -> ScriptedServer:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._threads[0].join(DEADLINE_SECONDS)
        self.cut()
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)

    @property
    def port(self) -> int:
        """The port of 127.0.0.1."""
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The address, without TLS."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection, and whatever is held up on it."""
        self.release.set()
        for connection in self._connections:
            with suppress(OSError):  # it has ended
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed at the end of the test
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, accepted: socket.socket) -> None:
        accepted.settimeout(DEADLINE_SECONDS)
        with ExitStack() as ends:
            connection = ends.enter_context(accepted)
            try:
                if self._tls is not None:
                    connection = ends.enter_context(self._tls.wrap_socket(accepted, server_side=True))
                    self._connections.append(connection)  # the other is empty now
                stream = ends.enter_context(connection.makefile("rb"))
                while line := stream.readline():
                    method, path, _ = line.decode().split(" ", 2)
                    headers = {}
                    while (line := stream.readline()) not in (b"\r\n", b""):
                        name, _, value = line.decode().partition(":")
                        headers[name.lower()] = value.strip()
                    request = Seen(method, path, headers)
                    self.seen.append(request)
                    next(self._script)(self, connection, request, partial(_receive, stream, request))
            except (Hangup, OSError):
                pass
            finally:
                self.gone.set()


def _receive(stream: Any, request: Seen) -> None:
    if request.headers.get("transfer-encoding") == "chunked":
        parts = []
        while size := int(stream.readline() or b"-1", 16):
            if size < 0:
                return
            parts.append(stream.read(size))
            stream.readline()
        stream.readline()
        request.body = b"".join(parts)
        return
    length = int(request.headers.get("content-length", "0"))
    body = stream.read(length)
    request.body = body if len(body) == length else None


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    """Make a head as the service does; a ``Milepost-Term`` of "" is left out, as another server would."""
    named = {"Milepost-Term": "3"} | dict(headers)
    lines = [f"HTTP/1.1 {status} x", *(f"{name}: {value}" for name, value in named.items() if value)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def reply(status: int = 200, body: bytes | Mapping[str, Any] = b"", **headers: str) -> Behaviour:
    """Take the request in, answer, keep the connection."""

    def behave(_: ScriptedServer, connection: socket.socket, __: Seen, receive: Callable[[], None]) -> None:
        receive()
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"Content-Length": str(len(content))} | {n.replace("_", "-"): v for n, v in headers.items()}
        connection.sendall(_head(status, named) + content)

    return behave


def reply_unread(status: int, **headers: str) -> Behaviour:
    """Answer without taking the body in, and close."""

    def behave(_: ScriptedServer, connection: socket.socket, __: Seen, ___: Callable[[], None]) -> None:
        named = {"Content-Length": "0", "Connection": "close"} | {n.replace("_", "-"): v for n, v in headers.items()}
        connection.sendall(_head(status, named))
        raise Hangup

    return behave


def cut(*, after: bytes = b"", reset: bool = True) -> Behaviour:
    """Take the request in, send the raw bytes ``after``, then end the connection, by a reset or in good order."""

    def behave(_: ScriptedServer, connection: socket.socket, __: Seen, receive: Callable[[], None]) -> None:
        receive()
        connection.sendall(after)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Hangup

    return behave


def cut_inside() -> Behaviour:
    """Take a little of a large body in, then reset the connection."""

    def behave(_: ScriptedServer, connection: socket.socket, __: Seen, ___: Callable[[], None]) -> None:
        connection.recv(100_000)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Hangup

    return behave


def stall() -> Behaviour:
    """Take the request in and never answer."""

    def behave(server: ScriptedServer, _: socket.socket, __: Seen, receive: Callable[[], None]) -> None:
        receive()
        server.release.wait(DEADLINE_SECONDS)
        raise Hangup

    return behave


def trickle(body: bytes, pause: float, **headers: str) -> Behaviour:
    """Answer byte by byte."""

    def behave(server: ScriptedServer, connection: socket.socket, _: Seen, receive: Callable[[], None]) -> None:
        receive()
        named = {"Content-Length": str(len(body))} | {n.replace("_", "-"): v for n, v in headers.items()}
        connection.sendall(_head(200, named))
        for index in range(len(body)):
            connection.sendall(body[index : index + 1])
            if server.release.wait(pause):
                raise Hangup

    return behave


def trickle_head(pause: float) -> Behaviour:
    """Begin an answer and never come to the end of its first header, byte by byte."""

    def behave(server: ScriptedServer, connection: socket.socket, _: Seen, receive: Callable[[], None]) -> None:
        receive()
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        until = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < until:
            connection.sendall(b"a")
            if server.release.wait(pause):
                raise Hangup

    return behave


def deaf() -> Behaviour:
    """Take nothing in but the head of the request."""

    def behave(server: ScriptedServer, _: socket.socket, __: Seen, ___: Callable[[], None]) -> None:
        server.release.wait(DEADLINE_SECONDS)
        raise Hangup

    return behave


@contextmanager
def full(host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The address of a server that accepts no connection any more, and refuses none."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        server.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"http://{host}:{server.getsockname()[1]}"


def head_of(status: int, **headers: str) -> bytes:
    """The raw head of an answer, for `cut`."""
    return _head(status, {name.replace("_", "-"): value for name, value in headers.items()})

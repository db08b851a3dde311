"""Requests byte for byte, for what an HTTP library would mend or refuse on its own side."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, cast

import httpx

from tests.wire.support.encrypted import EncryptedSocket

DEADLINE_SECONDS = 60.0


@contextmanager
def connected(url: str, tls: ssl.SSLContext | None = None) -> Iterator[socket.socket]:
    """A connection to the server at ``url``. Over TLS any server is believed, unless ``tls`` says otherwise."""
    address = httpx.URL(url)
    with closing(socket.create_connection((address.host, address.port or 80), DEADLINE_SECONDS)) as connection:
        if address.scheme == "https":
            yield cast("socket.socket", EncryptedSocket(connection, tls or _believing(), address.host))
        else:
            yield connection


def _believing() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def head(method: str, target: str | bytes, headers: dict[str, str] | None = None) -> bytes:
    """The bytes of a request up to its body; ``target`` as it is to stand in the first line."""
    raw = target.encode("ascii") if isinstance(target, str) else target
    fields = {"Host": "localhost", **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return method.encode() + b" " + raw + b" HTTP/1.1\r\n" + lines.encode("latin-1") + b"\r\n"


def answer(connection: socket.socket, method: str = "GET") -> httpx.Response:
    """Read one answer. Raises `http.client.HTTPException` where none comes, or a cut one."""
    response = http.client.HTTPResponse(connection, method=method)
    response.begin()
    return httpx.Response(response.status, headers=response.getheaders(), content=response.read())


def answers(connection: socket.socket, *methods: str) -> Iterator[httpx.Response]:
    """Read the answers to requests that were sent one behind the other without waiting."""
    with connection.makefile("rb") as file:
        for method in methods:
            response = http.client.HTTPResponse(Shared(file), method=method)  # type: ignore[arg-type]
            response.begin()
            yield httpx.Response(response.status, headers=response.getheaders(), content=response.read())


class Shared:
    """Stands for a socket whose bytes are read through one file: what it has read ahead is the next answer's."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def makefile(self, _: str) -> BinaryIO:
        return self  # type: ignore[return-value]

    def close(self) -> None:
        """The file stays open for the next."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def talk(connection: socket.socket, *requests: bytes) -> Iterator[httpx.Response]:
    """Send these one after the other on a connection that is kept, and give the answer to each."""
    for request in requests:
        connection.sendall(request)
        yield answer(connection, _method(request))


def ask(url: str, request: bytes, *, half_close: bool = False) -> httpx.Response:
    """Send these bytes on a connection of their own, and read the answer."""
    with connected(url) as connection:
        connection.sendall(request)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return answer(connection, _method(request))


def _method(request: bytes) -> str:
    return request.split(b" ", 1)[0].decode()

"""Asynchronous connections that can receive an answer while the request is still being sent.

A server that refuses a request answers and closes the connection. The bytes of the request that still arrive then reset
the connection, while the answer is in the client's socket buffer. A thread can read the answer there, but asyncio
discards it together with the socket once a write fails. So these connections read while they send. Connections with TLS
do not: anyio cannot read from a TLS stream whose write has failed, so such a request ends as a broken connection.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import anyio
import httpcore
import httpx

from milepost.drivers.network import Connected, wrap_backend

_LARGE = 16 * 1024
"""A write of up to this many bytes fits into the socket's buffers, and ends without waiting for the server."""
_HEARD = 64 * 1024
"""The most bytes to receive while sending: enough for the headers of an answer."""


def listen(http: httpx.AsyncClient) -> Connected[httpcore.AsyncNetworkStream]:
    """Make every connection of ``http`` able to receive an answer while a request is still being sent, and return the
    collection of its open connections.
    """
    connected: Connected[httpcore.AsyncNetworkStream] = Connected()
    wrap_backend(http, lambda backend: _Backend(backend, connected))
    return connected


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(
        self, backend: httpcore.AsyncNetworkBackend, connected: Connected[httpcore.AsyncNetworkStream]
    ) -> None:
        self._backend = backend
        self._connected = connected

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        return await _noted(_Listening(stream, self._connected), self._connected)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._backend.connect_unix_socket(path, timeout, socket_options)
        return await _noted(_Listening(stream, self._connected), self._connected)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class _Listening(httpcore.AsyncNetworkStream):
    """A TCP connection that keeps the bytes that it receives while it sends, for the next read."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, connected: Connected[httpcore.AsyncNetworkStream]) -> None:
        self._stream = stream
        self._connected = connected
        self._heard = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._heard:
            return await self._stream.read(max_bytes, timeout)
        piece, self._heard = self._heard[:max_bytes], self._heard[max_bytes:]
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if len(buffer) <= _LARGE or len(self._heard) >= _HEARD:
            await self._stream.write(buffer, timeout)
            return
        if self._stream.get_extra_info("is_readable"):
            await self._listen()
        broken: httpcore.WriteError | httpcore.WriteTimeout | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            try:
                await self._stream.write(buffer, timeout)
            except (httpcore.WriteError, httpcore.WriteTimeout) as error:
                broken = error  # raised after the task group, which would wrap it in an ExceptionGroup
            tasks.cancel_scope.cancel()
        if broken is not None:
            raise broken

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:  # httpcore does not close the stream if the deadline cancels the task
            await _close(self)
            raise
        return await _noted(stream, self._connected)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    async def _listen(self) -> None:
        with suppress(httpcore.ReadError):  # the next read raises the error again
            self._heard += await self._stream.read(_HEARD)


async def _noted(
    stream: httpcore.AsyncNetworkStream, connected: Connected[httpcore.AsyncNetworkStream]
) -> httpcore.AsyncNetworkStream:
    """Add a new stream to ``connected``, the open streams of the client, and return the stream. If the client was
    closed meanwhile, close the stream and raise `httpcore.ConnectError`.
    """
    try:
        connected.add(stream)
    except httpcore.ConnectError:
        await _close(stream)
        raise
    return stream


async def _close(stream: httpcore.AsyncNetworkStream) -> None:
    with anyio.CancelScope(shield=True):
        await stream.aclose()

"""Asynchronous connections that hear an answer which comes while the request is still on its way.

Who turns a request away answers, closes, and so resets the connection under the rest of the bytes. What was said lies
in the socket still, where a thread finds it; but asyncio throws it away with the socket once a write fails. So it is
read while bytes are sent. Over TLS that does not help: anyio reads no more from a stream whose write has failed, and
the core is told of a connection that broke.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import httpcore
import httpx
from httpcore._backends.anyio import AnyIOStream

_LARGE = 16 * 1024
"""Bytes at most that the buffers on the way hold for sure: a write of so many is not waited for."""
_HEARD = 64 * 1024
"""Bytes that are read at most before they are asked for: the head of an answer, and what TLS says by itself."""


def listen(http: httpx.AsyncClient) -> None:
    """Let every connection of ``http`` hear early answers.

    httpcore takes a network backend, but httpx has no argument to hand it on, hence the way through private names.
    """
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, httpx.AsyncHTTPTransport):
            pool = transport._pool
            pool._network_backend = _Backend(pool._network_backend)


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self, backend: httpcore.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        if isinstance(stream, AnyIOStream):
            stream._stream = _Listening(stream._stream)
        return stream

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise NotImplementedError  # no address of a service is one

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class _Listening(anyio.abc.ByteStream):
    """A TCP connection, below TLS if there is any, that keeps what comes while it sends."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._heard = b""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._heard:
            return await self._stream.receive(max_bytes)
        piece, self._heard = self._heard[:max_bytes], self._heard[max_bytes:]
        return piece

    async def send(self, item: bytes) -> None:
        if len(item) <= _LARGE or len(self._heard) >= _HEARD:
            await self._stream.send(item)
            return
        if self._said_already():
            await self._hear()
        broken: anyio.BrokenResourceError | anyio.ClosedResourceError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hear)
            try:
                await self._stream.send(item)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                broken = error  # not from within the group, which would wrap it
            tasks.cancel_scope.cancel()
        if broken is not None:
            raise broken

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return self._stream.extra_attributes

    def _said_already(self) -> bool:
        raw = self._stream.extra(anyio.abc.SocketAttribute.raw_socket)
        if raw.fileno() < 0:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(raw, selectors.EVENT_READ)
            return bool(selector.select(0))

    async def _hear(self) -> None:
        # What stands in its way, who reads next meets, too.
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._heard += await self._stream.receive()

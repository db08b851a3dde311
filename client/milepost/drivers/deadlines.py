"""Sockets that keep to the deadline of an attempt, however little comes or goes at a time.

httpx bounds each wait for bytes on its own, so a peer that sends one byte now and then would hold a call for as long as
it likes. The asynchronous driver cancels such a call; a thread cannot be cancelled, so its sockets look at the clock.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from milepost.core.clock import monotonic

_SLICE = 16 * 1024
"""Bytes that are written between two looks at the clock."""


class Deadline(threading.local):
    """Until when (monotonic) the calling thread's attempt may take."""

    at = float("inf")

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Begin an attempt. Within it another may begin and end: a source of bytes may make calls, too."""
        before, self.at = self.at, monotonic() + seconds
        try:
            yield
        finally:
            self.at = before

    def left(self, timeout: float | None, overdue: type[Exception]) -> float | None:
        """``timeout``, but no more than what is left; raises ``overdue`` where that is nothing."""
        if self.at == float("inf"):
            return timeout
        left = self.at - monotonic()
        if left <= 0:
            raise overdue("the time for this attempt is up")
        return left if timeout is None else min(timeout, left)


def keep(deadline: Deadline, http: httpx.Client) -> None:
    """Let every connection of ``http`` keep to ``deadline``.

    httpcore takes a network backend, but httpx has no argument to hand it on, hence the way through private names.
    """
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            pool = transport._pool
            pool._network_backend = _Backend(pool._network_backend, deadline)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, backend: httpcore.NetworkBackend, deadline: Deadline) -> None:
        self._backend = backend
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of ``host`` that answers. Each gets its share of the time: the first of several
        may be that of a machine that is off, which says nothing at all.
        """
        seconds = self._deadline.left(timeout, httpcore.ConnectTimeout)
        until = None if seconds is None else monotonic() + seconds
        addresses = _addresses(host, port)
        for number, address in enumerate(addresses, 1):
            share = None if until is None else (until - monotonic()) / (len(addresses) - number + 1)
            if share is not None and share <= 0:
                break
            try:
                stream = self._backend.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(addresses):
                    raise
            else:
                return _Stream(stream, self._deadline)
        raise httpcore.ConnectTimeout("the time for this attempt is up")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise NotImplementedError  # no address of a service is one

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for begin in range(0, len(buffer), _SLICE):
            seconds = self._deadline.left(timeout, httpcore.WriteTimeout)
            self._stream.write(buffer[begin : begin + _SLICE], seconds)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, seconds), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _addresses(host: str, port: int) -> list[str]:
    """The addresses of ``host`` in the order in which they are to be tried. Raises `httpcore.ConnectError`."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    return addresses if len(addresses) > 1 else [host]

"""Blocking sockets that end an attempt at its deadline, even if the peer sends or receives bytes slowly.

httpx limits only each single wait for bytes, so a peer that sends one byte now and then could hold a call for ever. The
asynchronous driver cancels such a call. A thread cannot be cancelled, so the sockets of the blocking driver check the
clock.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from milepost.core.clock import monotonic
from milepost.drivers.names import Names
from milepost.drivers.network import Connected, wrap_backend

_SLICE = 16 * 1024
"""The number of bytes written between two checks of the clock."""


class Deadline(threading.local):
    """The monotonic time by which an attempt at a request, including its answer, must end; each thread has its own."""

    at = float("inf")

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit the attempt that the block makes to ``seconds``.

        Blocks may be nested: an attempt reads its bytes from the program, which may call the SDK to produce them.
        """
        before, self.at = self.at, monotonic() + seconds
        try:
            yield
        finally:
            self.at = before

    def left(self, timeout: float | None, overdue: type[Exception]) -> float | None:
        """Return the smaller of ``timeout`` (None: no limit) and the seconds until the deadline; None if there is
        neither. Raises ``overdue`` if the deadline has passed.
        """
        if self.at == float("inf"):
            return timeout
        left = self.at - monotonic()
        if left <= 0:
            raise overdue("the time for this attempt is up")
        return left if timeout is None else min(timeout, left)


def keep(deadline: Deadline, http: httpx.Client) -> Connected[httpcore.NetworkStream]:
    """Make every connection of ``http`` check ``deadline``, and return the collection of its open connections."""
    connected: Connected[httpcore.NetworkStream] = Connected()
    wrap_backend(http, lambda backend: _Backend(backend, deadline, connected))
    return connected


class _Backend(httpcore.NetworkBackend):
    def __init__(
        self,
        backend: httpcore.NetworkBackend,
        deadline: Deadline,
        connected: Connected[httpcore.NetworkStream],
    ) -> None:
        self._backend = backend
        self._deadline = deadline
        self._connected = connected
        self._names = Names()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of ``host`` that answers.

        Each address gets an equal share of the remaining time, because the machine of the first address may be off and
        never answer.
        """
        seconds = self._deadline.left(timeout, httpcore.ConnectTimeout)
        until = None if seconds is None else monotonic() + seconds
        addresses = self._names.addresses(host, port, seconds)
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
                return _Stream(stream, self._deadline, self._connected)
        raise httpcore.ConnectTimeout("the time for this attempt is up")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        seconds = self._deadline.left(timeout, httpcore.ConnectTimeout)
        stream = self._backend.connect_unix_socket(path, seconds, socket_options)
        return _Stream(stream, self._deadline, self._connected)


class _Stream(httpcore.NetworkStream):
    def __init__(
        self, stream: httpcore.NetworkStream, deadline: Deadline, connected: Connected[httpcore.NetworkStream]
    ) -> None:
        self._stream = stream
        self._deadline = deadline
        self._connected = connected
        with self._closed_by_an_error():
            connected.add(self)

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
        with self._closed_by_an_error():
            seconds = self._deadline.left(timeout, httpcore.ConnectTimeout)
            stream = self._stream.start_tls(ssl_context, server_hostname, seconds)
        return _Stream(stream, self._deadline, self._connected)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    @contextmanager
    def _closed_by_an_error(self) -> Iterator[None]:
        """If the block raises, close this stream, because no caller would close it then."""
        try:
            yield
        except BaseException:
            self.close()
            raise

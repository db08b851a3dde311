"""Gives an httpx client a network backend and a choice of proxies. No other module uses private names of httpx and
httpcore.

A network backend is a public part of httpcore, but no argument of httpx passes one to the connection pools that it
makes. If a release of httpx or httpcore renames the private attributes, making a client fails with an AttributeError.

A pool closes its connections, but knows nothing of a connection that is being made meanwhile. So the backend notes each
connection that it makes in a `Connected`, which the client closes as well.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import httpcore
import httpx

S = TypeVar("S", httpcore.NetworkStream, httpcore.AsyncNetworkStream)
P = TypeVar("P")


def wrap_backend(http: httpx.Client | httpx.AsyncClient, wrap: Callable[[Any], Any]) -> None:
    """Replace the network backend of ``http`` by what ``wrap`` returns for it; the new backend makes every connection,
    including those to a proxy.
    """
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, (httpx.HTTPTransport, httpx.AsyncHTTPTransport)):
            pool: Any = transport._pool
            pool._network_backend = wrap(pool._network_backend)


def let_through(
    http: httpx.Client | httpx.AsyncClient, ways: Mapping[P, Any], way_of: Callable[[httpx.URL], P | None]
) -> None:
    """Choose the transport of each request of ``http``: ``way_of`` returns, for a URL, the key of the transport in
    ``ways``, or None for the client's own transport.
    """
    mounts: dict[Any, Any] = {_Pattern(way, way_of): transport for way, transport in ways.items()}
    http._mounts.update(mounts)


class _Pattern(Generic[P]):
    """Matches the URLs for which ``way_of`` returns ``way``. It replaces httpx's own URL pattern, which cannot match a
    network such as 10.0.0.0/8.
    """

    def __init__(self, way: P, way_of: Callable[[httpx.URL], P | None]) -> None:
        self._way = way
        self._way_of = way_of

    def matches(self, url: httpx.URL) -> bool:
        return self._way_of(url) == self._way


class Connected(Generic[S]):
    """The open network streams of a client. Once `end` was called, no stream can be added. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: weakref.WeakSet[S] | None = weakref.WeakSet()

    def add(self, stream: S) -> None:
        """Add a stream. Raises `httpcore.ConnectError` once the client is closed; the caller then closes the stream."""
        with self._lock:
            if self._streams is None:
                raise httpcore.ConnectError("the client was closed while it connected")
            self._streams.add(stream)

    def end(self) -> list[S]:
        """Accept no more streams, and return those that may be open; the caller must close these."""
        with self._lock:
            streams = [] if self._streams is None else list(self._streams)
            self._streams = None
        return streams

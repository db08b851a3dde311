"""Gives an httpx client a network backend and a choice of proxies of our own; the one place that uses private names of
httpx and httpcore.

A network backend is a public part of httpcore, but httpx has no argument that hands one on to the connection pools that
it makes. If a release of httpx or httpcore renames them, making a client fails with an AttributeError.

A pool closes the connections that it has, and knows nothing of one that is being made meanwhile. So the backend notes
what it makes in a `Connected`, which the client closes as well.
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
    """Let every connection of ``http``, also those through a proxy, be made by ``wrap(its network backend)``."""
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, (httpx.HTTPTransport, httpx.AsyncHTTPTransport)):
            pool: Any = transport._pool
            pool._network_backend = wrap(pool._network_backend)


def let_through(
    http: httpx.Client | httpx.AsyncClient, ways: Mapping[P, Any], way_of: Callable[[httpx.URL], P | None]
) -> None:
    """Let each request of ``http`` go by the transport of ``ways`` that ``way_of`` names, or by the client's own for
    None.
    """
    mounts: dict[Any, Any] = {_Pattern(way, way_of): transport for way, transport in ways.items()}
    http._mounts.update(mounts)


class _Pattern(Generic[P]):
    """Stands for a pattern of httpx, whose patterns do not know networks."""

    def __init__(self, way: P, way_of: Callable[[httpx.URL], P | None]) -> None:
        self._way = way
        self._way_of = way_of

    def matches(self, url: httpx.URL) -> bool:
        return self._way_of(url) == self._way


class Connected(Generic[S]):
    """The network streams that a client has open; none is added once they are closed. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: weakref.WeakSet[S] | None = weakref.WeakSet()

    def add(self, stream: S) -> None:
        """Note a stream. Raises `httpcore.ConnectError` once the client is closed; the caller closes the stream."""
        with self._lock:
            if self._streams is None:
                raise httpcore.ConnectError("the client was closed while it connected")
            self._streams.add(stream)

    def end(self) -> list[S]:
        """Accept no stream any more, and return those that may be open, for the caller to close."""
        with self._lock:
            streams = [] if self._streams is None else list(self._streams)
            self._streams = None
        return streams

"""Gives an httpx client a network backend of our own; the one place that uses private names of httpx and httpcore.

A network backend is a public part of httpcore, but httpx has no argument that hands one on to the connection pools that
it makes. If a release of httpx or httpcore renames them, making a client fails with an AttributeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx


def wrap_backend(http: httpx.Client | httpx.AsyncClient, wrap: Callable[[Any], Any]) -> None:
    """Let every connection of ``http``, also those through a proxy, be made by ``wrap(its network backend)``."""
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, (httpx.HTTPTransport, httpx.AsyncHTTPTransport)):
            pool: Any = transport._pool
            pool._network_backend = wrap(pool._network_backend)

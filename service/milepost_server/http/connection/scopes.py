"""Makes the ASGI scope of a request from its head."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import httptools

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_PLAIN_TARGET: Final = re.compile(rb"/[A-Za-z0-9._~-][A-Za-z0-9._~/-]*(?:\?[A-Za-z0-9._~/&=-]*)?")
"""The pattern of a target that is taken apart without httptools."""


def scope_of(
    parser: Any, target: bytes, fields: list[tuple[bytes, bytes]], connection: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the scope of the request whose head ``parser`` has read completely. ``connection`` has the members that
    are the same for all requests of a connection. Raises ValueError or an error of httptools if the target is invalid.
    """
    path, query = _path_and_query(target)
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": parser.get_http_version(),
        "method": parser.get_method().decode("ascii"),
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "query_string": query,
        "headers": fields,
        "extensions": {},
        **connection,
    }


def connection_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Return the members of a scope that describe its connection, from what the system knows about it."""
    return {
        "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
        "client": _address(transport.get_extra_info("peername")),
        "server": _address(transport.get_extra_info("sockname")),
    }


def _path_and_query(target: bytes) -> tuple[bytes, bytes]:
    if _PLAIN_TARGET.fullmatch(target):
        path, _, query = target.partition(b"?")
        return path, query
    parsed = httptools.parse_url(target)
    if parsed.path is None:
        raise ValueError("the target has no path")
    return parsed.path, parsed.query or b""


def _address(given: Any) -> tuple[str, int] | None:
    """Return the host and port of one end of a connection; None if they are not known."""
    return (given[0], given[1]) if isinstance(given, tuple) else None

"""The HTTP application served from the test's own loop, on a real socket, so that faults can be put beneath it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from milepost_server.http.connection.protocol import HttpProtocol
from milepost_server.http.tls.protocol import encrypted
from tests.support.waiting import until

_GRACE_SECONDS = 5
_KEEP_ALIVE_SECONDS = 75


class _Server(uvicorn.Server):
    """Leaves signals to the test runner."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def free_socket() -> tuple[socket.socket, str]:
    """A bound socket on a free port of 127.0.0.1, and the URL of what will be served on it."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.bind(("127.0.0.1", 0))
    return bound, f"http://127.0.0.1:{bound.getsockname()[1]}"


@asynccontextmanager
async def served(app: ASGIApp, bound: socket.socket, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Serve ``app`` on the socket, with the connection handling of the real server; both end with the block."""
    protocol = HttpProtocol if tls is None else encrypted(lambda: tls)
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", protocol),
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]))

    async def started() -> bool:
        assert not serving.done(), "the server ended before it had started"
        return server.started

    try:
        await until(started)
        yield
    finally:
        server.should_exit = True
        await serving

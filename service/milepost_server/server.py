"""The server process: a replica and its HTTP server, which start and stop together."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from milepost_backends.contract import Accounts
from milepost_server.basics.watched_files import WatchedFiles
from milepost_server.http.connection.protocol import HttpProtocol
from milepost_server.http.tls.certificates import Certificates
from milepost_server.http.tls.protocol import encrypted
from milepost_server.replica.replica import Replica

log = logging.getLogger("milepost")

GRACE_SECONDS = 10
"""The seconds that requests in progress have for their answers when the server stops."""

_DATE_SECONDS = 1.0
"""The field Date of an answer may be this much behind."""


class HttpServer(uvicorn.Server):
    """An HTTP server that makes its replica step down at the first signal to stop, so that another replica leads before
    this process ends.

    While it serves, it reads the files ``watched`` again when they change. It opens and closes ``accounts``, which ask
    Kubernetes about tokens.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        replica: Replica,
        watched: Sequence[WatchedFiles[Any]] = (),
        accounts: Accounts | None = None,
    ) -> None:
        super().__init__(config)
        self._replica = replica
        self._watched = watched
        self._accounts = accounts
        self.failed = False
        self._signalled = False
        self._stepping_down: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends = asyncio.Event()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop at the first signal; end the process at once at the second.

        An immediate end is like a crash, after which all stored data is intact. Nothing is logged here, since the
        signal may have interrupted the writing of a log line.
        """
        if self._loop is None:
            super().handle_exit(sig, frame)
            return
        if self._signalled:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self._signalled = True
        self._loop.call_soon_threadsafe(self._stop, sig)

    def _stop(self, sig: int) -> None:
        log.info("stopping on %s; a second signal ends the process at once", signal.Signals(sig).name)
        self._stepping_down = asyncio.get_running_loop().create_task(self._step_down())

    async def _step_down(self) -> None:
        await self._replica.resign()
        self._exit()

    def _fail(self) -> None:
        self.failed = True
        self._exit()

    def _exit(self) -> None:
        self.should_exit = True
        self._ends.set()

    async def main_loop(self) -> None:
        """Change the field Date of all answers once a second, until the server ends.

        Uvicorn's own loop looks ten times a second whether the server ends.
        """
        ends = asyncio.create_task(self._ends.wait())
        try:
            while not await self.on_tick(0):
                await asyncio.wait((ends,), timeout=_DATE_SECONDS)
        finally:
            ends.cancel()

    async def serve_replica(self, sockets: Sequence[socket.socket]) -> None:
        """Start the replica, serve on ``sockets`` until a signal to stop, then stop the replica. Raises `Misconfigured`
        if a backend cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        self._replica.on_fault = self._fail
        if self._accounts is not None:
            await self._accounts.open()
        await self._replica.start()
        watching = [asyncio.create_task(files.watch()) for files in self._watched]
        try:
            await self.serve(list(sockets))
        finally:
            for task in watching:
                task.cancel()
            await self._replica.stop()
            if self._accounts is not None:
                await self._accounts.close()
        if self._replica.refusal is not None:
            raise self._replica.refusal


def bound(host: str, port: int) -> list[socket.socket]:
    """Return a bound socket for each address of ``host``; none of them accepts connections yet.

    Raises OSError, for example if the port is in use.
    """
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            sockets.append(taken := socket.socket(family, kind, protocol))
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken.bind(address)
    except OSError as error:
        for each in sockets:
            each.close()
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    return sockets


def run(
    app: ASGIApp,
    replica: Replica,
    sockets: Sequence[socket.socket],
    certificates: Certificates | None = None,
    files: Sequence[WatchedFiles[Any]] = (),
    accounts: Accounts | None = None,
) -> None:
    """Serve on ``sockets`` until SIGTERM or SIGINT, over TLS if ``certificates`` contain a server certificate.

    Those of ``certificates``, and ``files``, are read again when they change. Raises `Misconfigured`.
    """
    protocol = encrypted(certificates.for_clients) if certificates and certificates.serve else HttpProtocol
    config = uvicorn.Config(
        app,
        # uvicorn only calls ``http``, so a function does instead of a class
        http=cast("type[asyncio.Protocol]", protocol),
        loop="auto",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        ws="none",
        server_header=False,
        log_config=None,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=75,
        # the most connections that may wait to be accepted; they must fit into the reserved file descriptors
        backlog=256,
    )
    watched: list[WatchedFiles[Any]] = [] if certificates is None else [certificates.watched]
    server = HttpServer(config, replica, [*watched, *files], accounts)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve_replica(sockets))
    if server.failed or not server.started:
        sys.exit(3)

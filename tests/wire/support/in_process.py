"""A replica and its HTTP server in this process, on real backends, for what a process of its own cannot have: other
settings, another clock, a fault at a chosen moment.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from anyio.from_thread import start_blocking_portal

from milepost_server.compose import ReplicaConfig, application
from milepost_server.http.access.tokens import Tokens, TokenSource
from milepost_server.http.connection.connections import Connections
from milepost_server.replica.settings import Settings
from tests.support.network.faults import before
from tests.support.servers.replicas import PROMPT, Build, Rig, embedded, rig
from tests.support.servers.served import free_socket, served
from tests.wire.support.api import connect, until


@dataclass(frozen=True)
class InProcess:
    """A rig that leads, and a client of the server around it."""

    rig: Rig
    http: httpx.Client

    @contextmanager
    def held_commit(self) -> Iterator[Callable[[], None]]:
        """The next commit waits until the block ends, however long that is: a database waits for 5 s at most.

        The block gets a function that waits until this commit has begun.
        """
        held, ended = threading.Event(), threading.Event()

        async def hold() -> None:
            held.set()
            await asyncio.to_thread(ended.wait)

        self.rig.pointers.disturb(before(hold))
        try:
            yield lambda: until(held.is_set, "a commit begins")
        finally:
            ended.set()


@contextmanager
def in_process(
    directory: Path,
    settings: Settings = PROMPT,
    build: Build | None = None,
    connections: Connections | None = None,
    tls: ssl.SSLContext | None = None,
    tokens: TokenSource | None = None,
) -> Iterator[InProcess]:
    """Serve from another thread, until the block ends; everything in one directory unless ``build`` says otherwise."""
    serving = _serving(directory, settings, build or embedded(directory), connections, tls, tokens or Tokens())
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving) as (made, url),
        connect(url) as http,
    ):
        yield InProcess(made, http)


@asynccontextmanager
async def _serving(
    directory: Path,
    settings: Settings,
    build: Build,
    connections: Connections | None,
    tls: ssl.SSLContext | None,
    tokens: TokenSource,
) -> AsyncIterator[tuple[Rig, str]]:
    bound, url = free_socket()
    url = url if tls is None else url.replace("http:", "https:")
    deployment = ReplicaConfig(f"embedded:{directory}/pointers", f"file:{directory}/blobs", url, "in-process")
    async with (
        rig(build, settings) as made,
        served(application(deployment, made.replica, tokens, connections=connections), bound, tls),
    ):
        yield made, url

"""The ZooKeeper that a run of the tests shares, and places in it that nobody else uses."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kazoo.client import KazooClient

from milepost_backends.zookeeper.connection import ZooKeeperConnection
from testbed.zookeeper import zookeeper
from tests.contracts.places import Services

TICK_SECONDS = 0.5
LONG_SECONDS = 10.0
"""For who does not wait for the end of a session: a machine that is busy loses none by it."""
SHORT_SECONDS = 4.0
"""For who waits for it; also what is asked for if an address says nothing of it."""


def shared_address(services: Services) -> str:
    """The address of the one server of the run; who wants to stop one starts another."""
    return services.of_run("zookeeper", _running)


@contextmanager
def _running(directory: Path) -> Iterator[str]:
    with zookeeper(directory, tick_seconds=TICK_SECONDS) as server:
        yield server.address


def fresh_url(tmp_path: Path, services: Services) -> str:
    """An address below which nothing is yet."""
    del tmp_path
    return url(shared_address(services))


def fresh_short_url(tmp_path: Path, services: Services) -> str:
    """The same with sessions that end soon."""
    del tmp_path
    return url(shared_address(services), SHORT_SECONDS)


def url(hosts: str, session_seconds: float = LONG_SECONDS) -> str:
    """An address at these servers below which nothing is yet."""
    return f"zookeeper://{hosts}/tests/{uuid.uuid4().hex}?session_timeout={session_seconds:g}"


@contextmanager
def visitor(hosts: str) -> Iterator[KazooClient]:
    """A plain client, for what goes on behind our back."""
    client = KazooClient(hosts, timeout=10.0)
    client.start(60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


async def expire(connection: ZooKeeperConnection) -> None:
    """Let the connection's session end, by taking it over, as anyone who knows its password may, and closing it.

    The one who owns it fights for it, so one attempt may not do.
    """
    lost, client = connection.lost, connection._client
    assert client is not None
    session = client.client_id
    async with asyncio.timeout(60):
        while not lost.is_set():
            await asyncio.to_thread(_taken_and_closed, connection.address.hosts, session)
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await lost.wait()


def _taken_and_closed(hosts: str, session: tuple[int, bytes]) -> None:
    thief = KazooClient(hosts, client_id=session)
    thief.start(60)
    thief.stop()
    thief.close()

"""Milepost adds a few things to kazoo; each is shown against a real ZooKeeper."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from milepost_backends.contract import Misconfigured, StorageUnavailable
from milepost_backends.zookeeper.address import Tls, ZooKeeperAddress
from milepost_backends.zookeeper.client import ZooKeeperClient
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from testbed.zookeeper import ZooKeeperServer
from tests.support.network.listener import Listener, listening
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


class Nonsense(Listener):
    """Answers what no ZooKeeper answers."""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"\0\0\0\4oops")
        await writer.drain()


@pytest.mark.parametrize(("asked", "granted"), [(0.2, 1.0), (2.5, 2.5), (60.0, 10.0)])
async def test_the_timeout_that_the_servers_granted_is_known(
    zookeeper_address: ZooKeeperAddress, asked: float, granted: float
) -> None:
    """They grant 2 to 20 ticks of 0.5 s."""
    connection = ZooKeeperConnection(ZooKeeperAddress(zookeeper_address.hosts, session_seconds=asked), "test", 60.0)
    assert connection.session_seconds == 0
    await connection.open()
    assert connection.session_seconds == granted
    await connection.close()


async def test_attempts_to_connect_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    connection = ZooKeeperConnection(ZooKeeperAddress("127.0.0.1:1"), "test", 1.0)
    with pytest.raises(StorageUnavailable):
        await connection.open()
    assert [record.getMessage() for record in caplog.records if record.name == "milepost.kazoo"] == []


async def test_a_password_is_not_logged_at_any_level(
    zookeeper_address: ZooKeeperAddress, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "credentials"
    file.write_text("milepost:hunter2")
    address = ZooKeeperAddress(zookeeper_address.hosts, credentials_file=file)
    caplog.set_level(1)
    connection = ZooKeeperConnection(address, "test", 60.0)
    await connection.open()
    await connection.ask("look at the root", lambda client: client.exists_async("/"))
    await connection.close()
    logging.getLogger().debug("seen")
    assert "seen" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_sessions_password_is_not_logged_where_a_server_answers_garbage(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Something else listens at its address when the session is to be taken up again."""

    connection = ZooKeeperConnection(ZooKeeperAddress(server.address), "test", 60.0)
    await connection.open()
    assert connection._client is not None
    password = connection._client.client_id[1]
    server.kill()
    async with listening(Nonsense(), server.port):

        async def is_logged() -> bool:
            return "deserialization of request: Connect" in caplog.text

        await until(is_logged)
    assert repr(password)[2:-1] not in caplog.text
    connection.timeout = 0.5
    await connection.close()


async def test_files_that_cannot_be_used_for_tls_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "garbage").write_text("no certificate")
    for ca_file in (tmp_path / "absent", tmp_path / "garbage"):
        with pytest.raises(Misconfigured, match=ca_file.name):
            await ZooKeeperConnection(ZooKeeperAddress("127.0.0.1:1", tls=Tls(ca_file)), "test", 60.0).open()


async def test_so_many_answers_at_once_take_few_wake_ups(zookeeper_address: ZooKeeperAddress) -> None:
    connection = ZooKeeperConnection(zookeeper_address, "test", 60.0)
    await connection.open()
    assert connection._bridge is not None
    before = connection._bridge.wake_ups
    count = 0
    for _ in range(20):
        futures = [connection.submit(_root) for _ in range(100)]
        await asyncio.gather(*futures)
        count += len(futures)
    assert connection._bridge.wake_ups - before < count
    await connection.close()


async def test_a_call_that_fails_at_an_answer_leaves_the_connection(
    zookeeper_address: ZooKeeperAddress, caplog: pytest.LogCaptureFixture
) -> None:
    """The call is made in the thread that receives all answers."""
    connection = ZooKeeperConnection(zookeeper_address, "test", 60.0)
    await connection.open()
    threads: list[str] = []

    def fail(_promise: object) -> None:
        threads.append(threading.current_thread().name)
        raise ZeroDivisionError

    def act(client: ZooKeeperClient) -> object:
        promise = client.exists_async("/")
        promise.rawlink(fail)
        return promise

    for _ in range(3):
        assert (await connection.submit(act)).ephemeralOwner == 0
    assert len(threads) == caplog.text.count("failed by a bug; the connection goes on") == 3
    assert ["zk_loop" in name for name in threads] == [True] * 3
    assert connection.lost_sessions == 0
    await connection.close()


def _root(client: ZooKeeperClient) -> object:
    return client.exists_async("/")

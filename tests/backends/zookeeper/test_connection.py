"""A connection to a real ZooKeeper that is stopped, paused and restarted."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NodeExistsError

from milepost_backends.contract import Misconfigured, StorageUnavailable
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.client import ZooKeeperClient
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from testbed.ports import Port
from testbed.zookeeper import ZooKeeperServer
from tests.support.servers.zookeeper import expire
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.later]

PATIENCE = 60.0


def at(server: ZooKeeperServer, session_seconds: float = 4.0) -> ZooKeeperAddress:
    return ZooKeeperAddress(server.address, session_seconds=session_seconds)


@asynccontextmanager
async def opened(address: ZooKeeperAddress, timeout: float = PATIENCE) -> AsyncIterator[ZooKeeperConnection]:
    connection = ZooKeeperConnection(address, "test", PATIENCE)
    await connection.open()
    connection.timeout = timeout
    try:
        yield connection
    finally:
        await connection.close()


def root(client: ZooKeeperClient) -> Any:
    return client.exists_async("/")


async def answers(connection: ZooKeeperConnection) -> bool:
    try:
        return await connection.ask("look at the root", root) is not None
    except StorageUnavailable:
        return False


async def test_open_and_close_can_be_repeated(zookeeper_address: ZooKeeperAddress) -> None:
    connection = ZooKeeperConnection(zookeeper_address, "test", PATIENCE)
    for _ in range(2):
        await connection.open()
        await connection.open()
        assert await answers(connection)
        assert await connection.close()
        assert await connection.close()
        with pytest.raises(StorageUnavailable, match="not open"):
            await connection.ask("look at the root", root)
        with pytest.raises(StorageUnavailable, match="not open"):
            connection.submit(root)


async def test_where_nobody_listens_open_ends_at_its_deadline() -> None:
    port = Port()
    connection = ZooKeeperConnection(ZooKeeperAddress(port.address), "test", 0.5)
    with pytest.raises(StorageUnavailable, match=f"cannot reach ZooKeeper at {port.address} within 0.5 s$"):
        await connection.open()


async def test_a_name_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver is not asked: what it says of a name is made up here, since a real one may be asked elsewhere."""
    port, resolve = Port(), socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "zk-1.nowhere":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    connection = ZooKeeperConnection(ZooKeeperAddress(f"zk-1.nowhere:2181,{port.address}"), "test", 2.0)
    with pytest.raises(StorageUnavailable, match=r"within 2 s: no address was found for zk-1\.nowhere$"):
        await connection.open()


async def test_closing_ends_an_open_that_is_under_way() -> None:
    port = Port()
    connection = ZooKeeperConnection(ZooKeeperAddress(port.address), "test", PATIENCE)
    opening = asyncio.create_task(connection.open())
    await asyncio.sleep(0.1)
    await connection.close()
    with pytest.raises(StorageUnavailable, match="closed"):
        await opening


async def test_an_error_is_translated_unless_it_is_expected(zookeeper_address: ZooKeeperAddress) -> None:
    async with opened(zookeeper_address) as connection:
        with pytest.raises(NodeExistsError):
            await connection.ask("make /", lambda client: client.create_async("/zookeeper"), NodeExistsError)
        with pytest.raises(StorageUnavailable, match="cannot make /zookeeper: NodeExistsError"):
            await connection.ask("make /zookeeper", lambda client: client.create_async("/zookeeper"))
        with pytest.raises(Misconfigured, match="does not permit"):
            await connection.ask("write", lambda client: client.set_async("/zookeeper/config", b""))


async def test_a_server_that_comes_back_is_found_again(server: ZooKeeperServer) -> None:
    async with opened(at(server)) as connection:
        server.kill()
        waiting = asyncio.create_task(connection.ask("look at the root", root))

        async def refuses() -> bool:
            try:
                connection.submit(root).cancel()
            except StorageUnavailable as error:
                return "no connection" in str(error)
            return False

        await until(refuses)
        server.serve()
        await until(lambda: answers(connection))
        await asyncio.wait([waiting], timeout=PATIENCE)
        assert waiting.done()  # with an answer, if it was not on its way when the server died
        assert isinstance(waiting.exception(), StorageUnavailable | None)


async def test_who_stops_waiting_disturbs_nobody(zookeeper_address: ZooKeeperAddress) -> None:
    async with opened(zookeeper_address) as connection:
        asking = [asyncio.create_task(connection.ask("look at the root", root)) for _ in range(100)]
        await asyncio.sleep(0)
        for task in asking[::2]:
            task.cancel()
        ends = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends[::2])
        assert not any(isinstance(end, BaseException) for end in ends[1::2])
        assert await answers(connection)


async def test_a_server_that_says_nothing_ends_no_wait_later_than_its_deadline(server: ZooKeeperServer) -> None:
    async with opened(at(server), timeout=1.0) as connection:
        server.pause()
        with pytest.raises(StorageUnavailable, match="does not answer"):
            await connection.ask("look at the root", root)
        server.resume()
        await until(lambda: answers(connection))


async def test_a_server_that_says_nothing_is_left_however_much_is_asked(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    """kazoo alone would go on for as long as somebody asks: it looks for an answer to its pings only while idle."""
    async with opened(at(server, 3.0), timeout=0.1) as connection:
        server.pause()

        async def left() -> bool:
            assert not await answers(connection)
            return "lost the connection to ZooKeeper for the test" in caplog.text

        await until(left)
        server.resume()
        await until(lambda: answers(connection))


async def test_closing_does_not_wait_for_a_server_that_says_nothing(server: ZooKeeperServer) -> None:
    connection = ZooKeeperConnection(at(server), "test", PATIENCE)
    await connection.open()
    server.pause()
    connection.timeout = 0.2
    assert not await connection.close()
    server.resume()


async def test_a_session_that_expired_is_reported_and_followed_by_a_new_one(server: ZooKeeperServer) -> None:
    async with opened(at(server)) as connection:
        lost = connection.lost
        assert connection.lost_sessions == 0
        await expire(connection)
        assert lost.is_set()
        assert connection.lost_sessions == 1
        assert not connection.lost.is_set()
        await until(lambda: answers(connection))


def fails(*_: object) -> None:
    raise RuntimeError("xids do not match")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a thread of kazoo's is to end by an exception."""
    monkeypatch.setattr("threading.excepthook", lambda _: None)


async def until_logged(caplog: pytest.LogCaptureFixture, line: str) -> None:
    async def is_logged() -> bool:
        return line in caplog.text

    await until(is_logged)


@pytest.mark.usefixtures("quiet")
async def test_kazoo_is_made_anew_when_its_thread_ends(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of kazoo's own, which a real server does not make at will: so it is put there by hand."""
    async with opened(at(server)) as connection:
        lost, client = connection.lost, connection._client
        assert client is not None
        monkeypatch.setattr(client._connection, "_read_socket", fails)
        assert not await answers(connection)
        async with asyncio.timeout(PATIENCE):
            await lost.wait()
        await until(lambda: answers(connection))
        assert connection._client is not client


@pytest.mark.usefixtures("quiet")
async def test_kazoo_is_made_anew_also_when_its_thread_ends_without_a_session(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand as well: it ends between an expiry and the next session, when there is nothing to tell listeners of."""
    async with opened(at(server)) as connection:
        client = connection._client
        assert client is not None
        connect = client._connection._connect

        def fails_without_a_session(*arguments: object) -> object:
            if client.state == "LOST":
                fails()
            return connect(*arguments)

        monkeypatch.setattr(client._connection, "_connect", fails_without_a_session)
        await expire(connection)
        connection.timeout = 1.0
        await until(lambda: answers(connection))
        assert connection._client is not client


@pytest.mark.usefixtures("quiet")
async def test_what_is_missing_to_make_kazoo_anew_is_waited_for(
    server: ZooKeeperServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the credentials is just being exchanged."""
    credentials = tmp_path / "credentials"
    credentials.write_text("milepost:hunter2")
    async with opened(ZooKeeperAddress(server.address, credentials_file=credentials), timeout=1.0) as connection:
        client = connection._client
        assert client is not None
        monkeypatch.setattr(client._connection, "_read_socket", fails)
        moved = credentials.rename(tmp_path / "moved")
        assert not await answers(connection)
        await until_logged(caplog, "yet: cannot read the credentials")
        moved.rename(credentials)
        await until(lambda: answers(connection))


@contextmanager
def no_descriptors() -> Iterator[None]:
    """There is no descriptor to be had, in this whole process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("quiet")
async def test_a_process_that_was_out_of_descriptors_comes_back(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A name cannot be resolved without one, which ends kazoo's thread; nor can another client be begun."""
    async with opened(ZooKeeperAddress(f"localhost:{server.port.number}"), timeout=1.0) as connection:
        server.kill()
        with no_descriptors():
            await until_logged(caplog, "yet: cannot start a connection")
        server.serve()
        await until(lambda: answers(connection))


async def test_an_open_that_is_out_of_descriptors_is_reported_and_may_be_tried_again(server: ZooKeeperServer) -> None:
    connection = ZooKeeperConnection(at(server), "test", PATIENCE)
    with no_descriptors(), pytest.raises(StorageUnavailable, match="cannot start a connection"):
        await connection.open()
    await connection.open()
    assert await answers(connection)
    await connection.close()


async def test_a_connection_that_is_made_anew_can_be_closed_meanwhile(
    server: ZooKeeperServer,
) -> None:
    connection = ZooKeeperConnection(at(server), "test", PATIENCE)
    await connection.open()
    client = connection._client
    assert client is not None
    connection._ended(client)
    rebuilding = connection._rebuilding
    assert rebuilding is not None
    await connection.close()
    await asyncio.wait([rebuilding])
    assert rebuilding.cancelled()
    assert connection._client is None

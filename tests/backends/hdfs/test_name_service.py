"""A name service with two NameNodes, of which one is active: found by HADOOP_CONF_DIR, and not lost with either.

The calls are made up: what counts is that they do not end, and a server that hangs so often at the right moment is not
to be had.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from milepost_backends.contract import StorageUnavailable
from milepost_backends.hdfs.blobs import HdfsBlobs
from milepost_backends.hdfs.routes import ThreadsWithTimeout, Unanswered
from milepost_server.compose import ReplicaConfig, open_replica
from milepost_server.replica.settings import Settings
from testbed.hadoop.pair import HdfsPair, hdfs_pair
from tests.contracts.streams import is_missing, keys, read, stream
from tests.support.servers.hdfs import alone
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

MANY = 101
LIMIT = 32


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[HdfsPair]:
    """The pair, and its configuration where clients look for it."""
    alone(monkeypatch)
    with hdfs_pair(tmp_path_factory.mktemp("hdfs")) as started:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(started.client_configuration))
        yield started


@pytest.mark.parametrize("authority", ["pair", ""], ids=["by its name", "by default"])
async def test_the_store_goes_on_with_whichever_name_node_is_active(
    pair: HdfsPair, tmp_path: Path, authority: str
) -> None:
    url = f"hdfs://{authority}/milepost/blobs"
    store = HdfsBlobs(url, deadline=3.0)
    await store.open()
    await store.put("a/first", stream(b"first"))

    pair.namenodes["nn1"].kill()
    with pytest.raises(StorageUnavailable):
        await store.put("a/between", stream(b"x"))
    pair.activate("nn2")
    assert await read(store, "a/first") == b"first"
    assert await is_missing(store, "a/between")
    await store.put("a/second", stream(b"second"))

    pair.restart("nn1")
    later = HdfsBlobs(url, deadline=3.0)  # which asks the one in standby first
    await later.open()
    deployment = ReplicaConfig(f"embedded:{tmp_path}", url, "http://127.0.0.1:1", "reader")
    reader = open_replica(deployment, Settings(blob_seconds=6.0)).blobs  # as patient as in a replica, in proportion
    await reader.open()
    await later.put("a/third", stream(b"third"))

    pair.namenodes["nn2"].pause()
    pair.activate("nn1")

    async def found() -> bool:
        try:
            return await read(reader, "a/third") == b"third"
        except StorageUnavailable:
            return False

    await until(found)
    assert await keys(reader) == ["a/first", "a/second", "a/third"]
    for opened in (reader, later, store):
        await opened.close()


@pytest.fixture
def free() -> Iterator[threading.Event]:
    """Set when the calls may end."""
    event = threading.Event()
    yield event
    event.set()


async def asked(threads: ThreadsWithTimeout, call: Callable[[], bool]) -> None:
    with pytest.raises(Unanswered):
        await threads.ask(call)


async def acted(threads: ThreadsWithTimeout, call: Callable[[], bool]) -> None:
    with pytest.raises(Unanswered):
        await threads.act(call)


async def cancelled(threads: ThreadsWithTimeout, call: Callable[[], bool]) -> None:
    asking = asyncio.ensure_future(threads.ask(call))
    await asyncio.sleep(0.001)
    asking.cancel()
    with pytest.raises((asyncio.CancelledError, Unanswered)):
        await asking


@pytest.mark.parametrize("hanging", [asked, acted, cancelled])
async def test_no_more_than_so_many_calls_are_left_behind(
    free: threading.Event, hanging: Callable[[ThreadsWithTimeout, Callable[[], bool]], Awaitable[None]]
) -> None:
    threads = ThreadsWithTimeout(0.02)
    begun = 0

    def hang() -> bool:
        nonlocal begun
        begun += 1
        return free.wait(600)

    for _ in range(MANY):
        await hanging(threads, hang)
    assert (begun, threads.left_behind, threads.full) == (LIMIT, LIMIT, True)
    free.set()

    async def back() -> bool:
        return threads.left_behind == 0

    await until(back)
    assert await ThreadsWithTimeout(60.0).ask(lambda: 1) == 1
    assert not threads.full


async def test_who_has_only_waited_for_others_is_told_so(free: threading.Event) -> None:
    """It says nothing about a server, and must not be taken for its silence."""
    threads = ThreadsWithTimeout(0.05)
    others = [asyncio.ensure_future(threads.act(lambda: free.wait(600), 600.0)) for _ in range(LIMIT)]
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError) as late:
        await threads.ask(lambda: True)
    assert not isinstance(late.value, Unanswered)
    free.set()
    assert all(await asyncio.gather(*others))


async def test_what_a_call_raises_after_nobody_waits_is_nobodys(free: threading.Event) -> None:
    threads = ThreadsWithTimeout(0.02)

    def fail() -> bool:
        free.wait(600)
        raise OSError("too late")

    await asked(threads, fail)
    free.set()

    async def back() -> bool:
        return threads.left_behind == 0

    await until(back)

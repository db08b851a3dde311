"""Pointers in a real ZooKeeper that is paused, killed and restarted under them."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from backends.contract import BackendError, CommitRefused, Done, Head, StorageUnavailable, Unknown
from backends.zookeeper.address import ZooKeeperAddress
from backends.zookeeper.pointers.store import ZooKeeperPointers
from testbed.zookeeper import ensemble, zookeeper
from tests.backends.zookeeper.pointers.places import opened
from tests.contracts.journals import ROOT, put, records, taken_over, writes
from tests.support.servers.zookeeper import expire
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def taken_over_at_last(store: ZooKeeperPointers) -> tuple[Head, dict[str, bytes]]:
    """Once the store answers again."""
    found: list[tuple[Head, dict[str, bytes]]] = []

    async def succeeds() -> bool:
        try:
            found.append(await taken_over(store))
        except BackendError:
            return False
        return True

    await until(succeeds, 120)
    return found[0]


async def confirmed(store: ZooKeeperPointers, head: Head) -> bool:
    """Whether the store answers, and no other has taken over."""
    try:
        return await store.confirm(head)
    except StorageUnavailable:
        return False


async def test_a_commit_to_a_server_that_says_nothing_is_unknown_and_settled_by_a_take_over(tmp_path: Path) -> None:
    with zookeeper(tmp_path, tick_seconds=0.5) as server:
        async with opened(ZooKeeperAddress(server.address), timeout=1.0) as store:
            await put(store, await store.take_over(ROOT), writes(a=b"1"))
            head, _ = await taken_over(store)
            server.pause()
            end = await store.commit(head, writes(b=b"2"), head.revision + 1)
            assert isinstance(end, Unknown), end
            with pytest.raises(StorageUnavailable):
                await store.take_over(ROOT)
            server.resume()
            head, found = await taken_over_at_last(store)
            assert found in ({"a": b"1"}, {"a": b"1", "b": b"2"})  # it lay in the server's socket: either is true
            head = await put(store, head, writes(c=b"3"))
            assert (await taken_over(store))[1] == {**found, "c": b"3"}


async def test_without_a_connection_a_commit_is_refused_and_never_lands(tmp_path: Path) -> None:
    with zookeeper(tmp_path) as server:
        async with opened(ZooKeeperAddress(server.address), timeout=1.0) as store:
            head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
            server.kill()

            never: list[str] = []
            numbers = itertools.count()

            async def refuses() -> bool:
                key = f"b{next(numbers)}"
                end = await store.commit(head, writes(**{key: b"2"}), head.revision + 1)
                if not isinstance(end, CommitRefused):
                    return False
                never.append(key)
                return True

            await until(refuses)  # what was sent to the dying server may be unknown
            for _ in range(400):  # more than kazoo's thread could be woken for without anybody reading it
                assert await refuses()
            server.serve()
            await until(lambda: confirmed(store, head))
            await asyncio.sleep(0.5)  # the head that they were to be led by is still there: now or never
            async with opened(ZooKeeperAddress(server.address)) as other:
                assert set((await taken_over(other))[1]).isdisjoint(never)
            assert set((await taken_over_at_last(store))[1]).isdisjoint(never)


async def test_the_same_object_goes_on_when_the_server_was_killed_and_restarted(tmp_path: Path) -> None:
    with zookeeper(tmp_path) as server:
        async with opened(ZooKeeperAddress(server.address)) as store:
            head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
            for number in range(2):
                server.kill()
                server.serve()
                head, found = await taken_over_at_last(store)
                assert found["a"] == b"%d" % (number + 1)
                head = await put(store, head, writes(a=b"%d" % (number + 2)))


async def test_the_loss_of_a_session_does_not_matter(tmp_path: Path) -> None:
    with zookeeper(tmp_path) as server:
        async with opened(ZooKeeperAddress(server.address)) as store:
            head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
            await expire(store._connection)
            assert await store.confirm(head)
            await put(store, head, writes(a=b"2"))


async def test_a_load_across_two_sessions_is_not_trusted(tmp_path: Path) -> None:
    """The second may be with a server that lags behind; a client that lost its session does not know how far it was."""
    with zookeeper(tmp_path) as server:
        async with opened(ZooKeeperAddress(server.address)) as store:
            await put(store, await store.take_over(ROOT), writes(a=b"1"))
            head = await store.take_over(ROOT)
            loading = store.load(head)
            assert (await anext(loading)).key == "a"
            await expire(store._connection)
            with pytest.raises(StorageUnavailable, match="session"):
                await anext(loading)
            assert await records(store, await store.take_over(ROOT)) == {"a": b"1"}


async def test_what_was_acknowledged_is_there_after_the_ensemble_lost_its_leader(tmp_path: Path) -> None:
    with ensemble(tmp_path, tick_seconds=0.5) as servers:
        async with opened(ZooKeeperAddress(servers.hosts), timeout=5.0) as store:
            head, _ = await taken_over(store)
            acknowledged: set[int] = set()
            stopping = asyncio.Event()

            async def write() -> None:
                nonlocal head
                number = 0
                while not stopping.is_set():
                    number += 1
                    end = await store.commit(head, writes(**{f"k{number}": b"1"}), head.revision + 1)
                    if isinstance(end, Done):
                        head = end.head
                        acknowledged.add(number)
                    else:
                        head, _ = await taken_over_at_last(store)

            writing = asyncio.create_task(write())
            leader = await asyncio.to_thread(servers.leader)
            before = len(acknowledged)
            leader.kill()

            async def goes_on() -> bool:
                return writing.done() or len(acknowledged) > before + 20

            await until(goes_on, 120)
            stopping.set()
            await writing
            found = (await taken_over_at_last(store))[1]
            assert {f"k{number}" for number in acknowledged} <= set(found)

"""Pointers in ZooKeeper outlast the loss of a session and of an ensemble's leader.

(What holds of every server that stops or hangs is shown in `tests.contracts.test_coordination_outages`.)
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from milepost_backends.contract import StorageUnavailable
from milepost_backends.zookeeper.address import ZooKeeperAddress
from testbed.zookeeper import ensemble, zookeeper
from tests.backends.zookeeper.pointers.places import opened
from tests.contracts.journals import ROOT, SteadyWriter, put, records, taken_over_at_last, writes
from tests.support.servers.zookeeper import expire

pytestmark = [pytest.mark.anyio, pytest.mark.later]


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
            writer = SteadyWriter(store)
            async with writer.writing():
                leader = await asyncio.to_thread(servers.leader)
                leader.kill()
                await writer.more()
            assert writer.acknowledged <= set((await taken_over_at_last(store))[1])

"""Many records in a real ZooKeeper."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from milepost_backends.contract import Change, GroupLimits
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from tests.backends.zookeeper.pointers.places import layout
from tests.contracts.journals import ROOT, put, records

pytestmark = [pytest.mark.anyio, pytest.mark.later]

COUNT = 100_000
GROUP = 1000
JUTE_MAXBUFFER = 1024 * 1024


async def test_a_hundred_thousand_handles_load_and_no_answer_is_too_large(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    expected = {f"stores/flights/handles/checkpoint-{number:06}": b"%d" % number for number in range(COUNT)}
    store = ZooKeeperPointers(zookeeper_address, limits=GroupLimits(requests=GROUP, in_flight=4), timeout=60.0)
    await store.open()
    head = await store.take_over(ROOT)
    assert await records(store, head) == {}
    changes = [Change(key, value) for key, value in expected.items()]
    for begin in range(0, COUNT, GROUP):
        head = await put(store, head, changes[begin : begin + GROUP])
    head = await store.take_over(ROOT)
    assert await records(store, head) == expected
    await store.close()
    handles = f"{layout(zookeeper_address).records}/stores/flights/handles"
    for directory in (handles, f"{handles}/~00", f"{handles}/~ff"):
        names = visitor.get_children(directory)
        assert 0 < sum(len(name) + 4 for name in names) < JUTE_MAXBUFFER / 10

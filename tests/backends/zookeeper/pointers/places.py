"""Short words for what tests do to pointers in ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from tests.contracts.journals import ROOT


@asynccontextmanager
async def opened(
    address: ZooKeeperAddress, timeout: float = 60.0, accept_loss: Collection[str] = ()
) -> AsyncIterator[ZooKeeperPointers]:
    """A store, open."""
    store = ZooKeeperPointers(address, timeout=60.0, accept_loss=accept_loss)
    await store.open()
    store._connection.timeout = timeout
    try:
        yield store
    finally:
        await store.close()


def layout(address: ZooKeeperAddress) -> ZnodeLayout:
    """Of the root journal."""
    return ZnodeLayout(address.root, ROOT)

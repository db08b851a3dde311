"""Short words for what tests do to pointers in ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kazoo.client import KazooClient

from backends.pointers.zookeeper import ZooKeeperPointers
from backends.pointers.zookeeper_layout import Layout
from backends.zookeeper.address import Address
from tests.contracts.journals import ROOT


@asynccontextmanager
async def opened(address: Address, patience: float = 60.0) -> AsyncIterator[ZooKeeperPointers]:
    """A store, open."""
    store = ZooKeeperPointers(address, patience=patience)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def layout(address: Address) -> Layout:
    """Of the root journal."""
    return Layout(address.root, ROOT)


def end_session(store: ZooKeeperPointers, hosts: str) -> None:
    """Take the store's session over, as whoever knows its password may, and close it."""
    client = store._connection._client
    assert client is not None
    thief = KazooClient(hosts, client_id=client.client_id)
    thief.start(60)
    thief.stop()
    thief.close()

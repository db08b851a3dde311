"""A place in the session's HDFS for each test, and what makes faults before it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from milepost_backends.hdfs.blobs import HdfsBlobs
from tests.contracts.places import Services
from tests.support.network.rpc_relay import Relay, relay
from tests.support.servers import hdfs as hdfs_support
from tests.support.servers.hdfs import HdfsPlace


@pytest.fixture
def hdfs(services: Services) -> HdfsPlace:
    """A fresh directory in the session's HDFS, not made yet."""
    return HdfsPlace.fresh(hdfs_support.shared(services))


@pytest.fixture
async def hdfs_store(hdfs: HdfsPlace) -> AsyncIterator[HdfsBlobs]:
    """A store on it, open."""
    blobs = HdfsBlobs(hdfs.url)
    await blobs.open()
    try:
        yield blobs
    finally:
        await blobs.close()


@pytest.fixture
async def hdfs_behind(hdfs: HdfsPlace) -> AsyncIterator[tuple[HdfsBlobs, Relay]]:
    """A store on it, open, and the relay through which it calls the NameNode."""
    async with relay(hdfs.server.namenode.port.number) as before:
        blobs = HdfsBlobs(f"hdfs://127.0.0.1:{before.port}/{hdfs.path}", deadline=20.0)
        await blobs.open()
        try:
            yield blobs, before
        finally:
            before()
            await blobs.close()

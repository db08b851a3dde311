"""Group commit on a healthy store: everything lands in its first term."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.blobs.intake import Incoming
from service.compose import Deployment, open_replica
from service.operations import sessions, states
from service.operations.calls import Caller
from service.settings import Settings

pytestmark = pytest.mark.anyio

WRITES = 200


async def chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_many_writers_share_groups_and_burn_no_term(tmp_path: Path) -> None:
    deployment = Deployment(f"embedded:{tmp_path}/p", f"file:{tmp_path}/b", "http://127.0.0.1:9", "test")
    replica = open_replica(deployment, Settings())
    await replica.start()
    try:
        async with asyncio.timeout(60):
            while not replica.leads:
                await asyncio.sleep(0.01)
            await sessions.open_session(replica, Caller("writer"), 60, "")
            before = replica.journal.groups_committed
            data = b"x" * 100
            digest = hashlib.sha256(data).hexdigest()
            replies = await asyncio.gather(
                *(
                    states.add(replica, Caller("writer"), "store", f"h{n}", Incoming(chunk(data), 100, digest), {})
                    for n in range(WRITES)
                )
            )
    finally:
        await replica.stop()
    assert len({reply.answer.version for reply in replies}) == WRITES
    assert replica.journal.terms_burnt == 0
    assert replica.journal.term == 1
    assert replica.journal.groups_committed - before < WRITES

"""What is put together for a server's own process."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from milepost_server.compose import ReplicaConfig, open_replica
from tests.support.servers.replicas import PROMPT
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_garbage_of_an_earlier_leadership_does_not_stay_for_good(tmp_path: Path) -> None:
    """What was loaded then was spared by the collector, and may be part of a cycle now."""

    class Left:
        itself: Left

    left = Left()
    left.itself = left
    gone = weakref.ref(left)
    config = ReplicaConfig(f"embedded:{tmp_path}/pointers", f"file:{tmp_path}/blobs", "http://127.0.0.1:9", "one")
    replica = open_replica(config, PROMPT)

    async def leads() -> bool:
        return replica.leads

    gc.disable()  # so that nobody else collects it
    try:
        gc.freeze()
        del left
        await replica.start()
        await until(leads)
        assert gone() is None
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
        await replica.stop()

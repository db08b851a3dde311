"""What is put together for a server's own process."""

from __future__ import annotations

import gc
import time
import weakref
from pathlib import Path

import pytest

from milepost_server.compose import ReplicaConfig, open_replica, wall_clock
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


def test_the_wall_clock_tells_each_second_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for nanoseconds in (1_785_499_199_999_999_999, 1_785_499_200_000_000_000, 1_785_499_201_007_000_000, 0):
        monkeypatch.setattr(time, "time_ns", lambda now=nanoseconds: now)
        told.append(wall_clock())
    assert told == [
        "2026-07-31T11:59:59.999Z",
        "2026-07-31T12:00:00.000Z",
        "2026-07-31T12:00:01.007Z",
        "1970-01-01T00:00:00.000Z",
    ]

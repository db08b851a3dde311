"""A wall clock that jumps: times for people to read are wrong then, and nothing else is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from milepost.errors import VersionMismatch
from milepost_server.compose import wall_clock
from tests.service.acting import actor
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

YEAR = timedelta(days=365)
COLLECTING = replace(
    PROMPT, collect_after_seconds=3600.0, collect_interval_seconds=0.02, maintenance_interval_seconds=0.02
)


@pytest.fixture(params=[-YEAR, YEAR], ids=["back", "ahead"])
def jump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Rig], None]:
    """Moves the wall clock of this process, as the replica and the blob store see it, by a year."""
    by: timedelta = request.param
    real = time.time

    def jumped(running: Rig) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + by.total_seconds())
        running.wall = lambda: (datetime.fromisoformat(wall_clock()) + by).astimezone(timezone.utc).isoformat()

    return jumped


async def rounds(running: Rig, count: int = 3) -> None:
    """Wait until the collector has looked through the blobs so many times."""
    end = running.blobs.listed + count

    async def looked() -> bool:
        return running.blobs.listed >= end

    await until(looked)


async def test_sessions_locks_and_epochs_live_on(tmp_path: Path, jump: Callable[[Rig], None]) -> None:
    async with rig(embedded(tmp_path), COLLECTING) as running:
        a, b = await actor(running, "a", ttl=60.0), await actor(running, "b")
        epoch = await a.campaign()
        await a.under(epoch=epoch).add("pointer", b"state")
        jump(running)
        await rounds(running)
        assert await a.locks() == ["pointer"]
        assert not (await b.under(epoch=epoch).remove("pointer")).removed
        await a.under(epoch=epoch).add("another", b"state")


async def test_sessions_end_after_their_time_and_not_before(tmp_path: Path, jump: Callable[[Rig], None]) -> None:
    async with rig(embedded(tmp_path), COLLECTING) as running:
        a, b = await actor(running, "a", ttl=60.0), await actor(running, "b")
        await a.add("pointer", b"state")
        jump(running)
        running.clock.advance(61.0)

        async def ended() -> bool:
            return (await b.remove("pointer")).removed

        await until(ended)


async def test_versions_rise_and_keys_are_known(tmp_path: Path, jump: Callable[[Rig], None]) -> None:
    async with rig(embedded(tmp_path), COLLECTING) as running:
        a = await actor(running, "a")
        first = await a.under(key="one").add("pointer", b"old")
        jump(running)
        assert (await a.under(key="one", attempt=2).add("pointer", b"old")).version == first.version
        second = await a.replace("pointer", first.version, b"new")
        assert second.version != first.version
        with pytest.raises(VersionMismatch):
            await a.replace("pointer", first.version, b"late")
        assert await a.read("pointer") == b"new"


async def test_nothing_that_is_named_is_collected(tmp_path: Path, jump: Callable[[Rig], None]) -> None:
    """However old it looks: after a jump ahead each blob is a year old."""
    async with rig(embedded(tmp_path), COLLECTING) as running:
        a = await actor(running, "a")
        before = await a.add("before", b"1")
        await running.restart()
        jump(running)
        await rounds(running)
        await a.add("after", b"2")
        await rounds(running)
        assert (await a.read("before"), await a.read("after")) == (b"1", b"2")
        assert await a.exists("before") == before.version
        assert running.blobs.discarded == []

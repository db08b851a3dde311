"""Wishes and the callers that wait for the epoch: who is told, who is woken, and who counts as a standby."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from milepost.errors import EpochHeld, NotExist
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.wishes import HandOver, StartJob, StopJob
from milepost_server.replica.epoch_queues import RESERVED_SECONDS
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE, actor
from tests.service.operations.test_campaigns import WAIT, decided, granted, resign, waiting
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio

__all__ = ["decided"]

NOBODY = Attempt("")


async def stop(running: Rig) -> None:
    await running.operations.wishes.stop(StopJob(NOBODY, STORE, "anna"))


async def start(running: Rig) -> None:
    await running.operations.wishes.start(StartJob(NOBODY, STORE))


async def hand_over(running: Rig, to: str = "") -> None:
    await running.operations.wishes.hand_over(HandOver(NOBODY, STORE, ending=1 if to else 0), force=False, to=to)


async def test_who_waits_is_told_of_a_stop_once_and_waits_in_peace(tmp_path: Path, decided: list[str]) -> None:
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b", "c"):
            await actor(running, session)
        await granted(running, "a")
        polls = [await waiting(running, session) for session in ("b", "c")]
        await stop(running)
        decided.clear()
        await resign(running, "a")
        for poll in polls:
            with pytest.raises(EpochHeld, match="stopped by anna"):
                await poll
        assert sorted(decided) == ["b", "c"]
        polls = [await waiting(running, session) for session in ("b", "c")]
        decided.clear()
        await asyncio.sleep(0.05)
        assert decided == []
        await start(running)
        assert await polls[0] == 2
        assert decided == ["b"], "only the first of the queue is woken"
        polls[1].cancel()


async def test_who_may_act_on_a_stopped_job_is_granted_the_epoch_before_those_that_may_not(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b", "operator"):
            await actor(running, session)
        await granted(running, "a")
        await stop(running)
        standby = await waiting(running, "b")
        caller = Caller(Attempt("operator"))
        acting = asyncio.create_task(running.operations.epochs.campaign(caller, STORE, WAIT, if_stopped=True))
        await asyncio.sleep(0.05)
        await resign(running, "a")
        assert (await acting).answer.body["epoch"] == 2
        with pytest.raises(EpochHeld, match="stopped by anna"):
            await standby
        standby = await waiting(running, "b")
        await resign(running, "operator")
        with pytest.raises(EpochHeld, match="stopped by anna"):
            await standby


async def test_a_standby_that_is_frozen_or_gone_is_none(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await actor(running, "a")
        await actor(running, "b", ttl=90.0)
        await granted(running, "a")
        standby = await waiting(running, "b")
        running.clock.advance(50.0)
        with pytest.raises(NotExist):
            await hand_over(running)
        await running.operations.sessions.keepalive("b", running.clock())
        await hand_over(running)
        await resign(running, "a")
        assert await standby == 2


async def test_a_hand_over_that_is_asked_again_is_answered_as_the_first_though_its_standby_has_left(
    tmp_path: Path,
) -> None:
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b"):
            await actor(running, session)
        await granted(running, "a")
        standby = await waiting(running, "b")
        await hand_over(running)
        standby.cancel()
        await asyncio.gather(standby, return_exceptions=True)
        await hand_over(running)


async def test_a_standby_that_asks_again_a_moment_later_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("milepost_server.operations.wishes.STANDBY_SECONDS", WAIT)  # however slow the machine is
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b"):
            await actor(running, session)
        await granted(running, "a")
        asked = asyncio.create_task(hand_over(running))
        await asyncio.sleep(0.05)
        standby = await waiting(running, "b")
        await asked
        await resign(running, "a")
        assert await standby == 2


async def test_the_standby_that_is_named_leads_before_those_that_wait_for_longer(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b", "c", "d"):
            await actor(running, session)
        await granted(running, "a")
        first, named = await waiting(running, "b"), await waiting(running, "c")
        await hand_over(running, to="c")
        await resign(running, "a")
        assert await named == 2
        assert not first.done()
        await hand_over(running, to="c")  # as if the answer had been lost: that epoch has ended, so nothing is asked
        await resign(running, "c")
        assert await first == 3, "the reservation was for one epoch"


async def test_the_others_wait_ten_seconds_for_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("milepost_server.operations.wishes.STANDBY_SECONDS", 0.2)
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b", "c", "d"):
            await actor(running, session)
        await granted(running, "a")
        with pytest.raises(NotExist, match="no driver called 'c' stands by"):
            await hand_over(running, to="c")
        standby, named = await waiting(running, "b"), await waiting(running, "c")
        await hand_over(running, to="c")
        named.cancel()
        await resign(running, "a")
        with pytest.raises(EpochHeld, match="handed over to another session"):
            await running.operations.epochs.campaign(Caller(Attempt("d")), STORE, 0.0)
        assert not standby.done()
        running.clock.advance(RESERVED_SECONDS)
        await running.operations.sessions.keepalive("b", running.clock())
        assert await standby == 2

"""Who leads, asked of an election that takes its time.

The election is a stand-in: a real one cannot be made to answer at a chosen context.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from milepost_backends.contract import Leadership, StorageUnavailable
from milepost_server.replica.leader_locator import LeaderLocator
from tests.support.network.faults import ShiftedClock

pytestmark = pytest.mark.anyio

ME, OTHER = "http://127.0.0.1:1", "http://127.0.0.1:2"


class SlowElection:
    """Answers when it is told to, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self.away = False

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def campaign(self) -> Leadership:
        raise NotImplementedError

    async def leader(self) -> str | None:
        self.asked += 1
        await self.answers.wait()
        if self.away:
            raise StorageUnavailable("by the test")
        return OTHER


async def asked_by(leader_locator: LeaderLocator, count: int) -> list[asyncio.Task[str | None]]:
    """So many who wait for the answer."""
    tasks = [asyncio.create_task(leader_locator.elsewhere()) for _ in range(count)]
    await asyncio.sleep(0.01)
    return tasks


@pytest.mark.parametrize("away", [False, True])
async def test_all_who_ask_meanwhile_share_one_answer(away: bool) -> None:
    election, clock = SlowElection(), ShiftedClock()
    election.away = away
    leader_locator = LeaderLocator(election, ME, clock)
    waiting = await asked_by(leader_locator, 5)
    election.answers.set()
    assert await asyncio.gather(*waiting) == [None if away else OTHER] * 5
    assert election.asked == 1


async def test_one_who_gives_up_takes_the_answer_from_nobody() -> None:
    election = SlowElection()
    waiting = await asked_by(LeaderLocator(election, ME, ShiftedClock()), 2)
    waiting[0].cancel()
    await asyncio.sleep(0.01)
    election.answers.set()
    assert await waiting[1] == OTHER
    assert election.asked == 1


async def test_an_answer_is_good_for_a_moment() -> None:
    election, clock = SlowElection(), ShiftedClock()
    election.answers.set()
    leader_locator = LeaderLocator(election, ME, clock)
    assert [await leader_locator.leader(), await leader_locator.leader()] == [OTHER, OTHER]
    assert election.asked == 1
    clock.advance(1.0)
    assert await leader_locator.leader() == OTHER
    assert election.asked == 2


async def test_an_outage_is_logged_once_then_now_and_then_and_once_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "milepost")
    election, clock = SlowElection(), ShiftedClock()
    election.answers.set()
    leader_locator = LeaderLocator(election, ME, clock)
    for away in (True, False):
        election.away = away
        for _ in range(40 if away else 2):
            await leader_locator.leader()
            clock.advance(1.0)
    texts = [record.getMessage().partition(";")[0] for record in caplog.records]
    assert texts[:2] == ["cannot ask the election who leads"] * 2
    assert len(texts) == 4
    assert texts[2].startswith("the election answers again, after 40")
    assert texts[3] == f"{OTHER} leads now"

"""Every election: one leader at a time, known to the others, and a successor as soon as that is certain."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from milepost_backends.contract import Election, Leadership, StorageUnavailable
from tests.contracts.factories import ELECTIONS
from tests.contracts.places import Place, cases
from tests.support.children import Child, child
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

Elections = Place[Election]

ONE, OTHER, THIRD = "http://127.0.0.1:7071", "http://127.0.0.1:7072", "http://127.0.0.1:7073"
DEADLINE = 60.0
WHILE_NOTHING_HAPPENS = 1.0
ROUNDS = 8


def leads(leadership: Leadership) -> bool:
    return leadership.remaining(time.monotonic()) > 0


async def won(candidate: Election) -> Leadership:
    """Campaign and win, within the deadline."""
    async with asyncio.timeout(DEADLINE):
        leadership = await candidate.campaign()
    assert leads(leadership)
    return leadership


async def until_leader_is(candidate: Election, expected: str | None) -> None:
    """Wait until the candidate sees who leads; what it sees may lag behind."""

    async def sees() -> bool:
        return await candidate.leader() == expected

    await until(sees, DEADLINE)


@asynccontextmanager
async def process(elections: Elections, advertise: str) -> AsyncIterator[Child]:
    """A candidate in a process of its own, open and waiting for commands."""
    async with child("tests.contracts.children.candidate", elections.backend.name, elections.address, advertise) as one:
        assert await one.line() == "ready"
        yield one


async def test_before_the_first_campaign_nobody_leads(elections: Elections) -> None:
    async with elections.opened(ONE) as one:
        assert await one.leader() is None


async def test_a_lone_candidate_leads_and_is_named(elections: Elections) -> None:
    async with elections.opened(ONE) as one, elections.opened(OTHER) as other:
        await won(one)
        await until_leader_is(one, ONE)
        await until_leader_is(other, ONE)


async def test_a_second_candidate_waits_until_the_first_resigns(elections: Elections) -> None:
    async with elections.opened(ONE) as one, elections.opened(OTHER) as other:
        first = await won(one)
        waiting = asyncio.create_task(won(other))
        done, _ = await asyncio.wait([waiting], timeout=WHILE_NOTHING_HAPPENS)
        assert not done
        assert leads(first)
        await first.resign()
        assert not leads(first)
        assert leads(await waiting)
        await until_leader_is(one, OTHER)


async def test_leadership_that_was_resigned_is_lost(elections: Elections) -> None:
    async with elections.opened(ONE) as one:
        leadership = await won(one)
        noticed = asyncio.create_task(leadership.wait_lost())
        await asyncio.sleep(0)
        assert not noticed.done()
        await leadership.resign()
        await leadership.resign()
        async with asyncio.timeout(DEADLINE):
            await noticed
            await leadership.wait_lost()
        await until_leader_is(one, None)


async def test_who_resigned_can_win_again_and_the_old_leadership_stays_lost(elections: Elections) -> None:
    async with elections.opened(ONE) as one:
        first = await won(one)
        await first.resign()
        second = await won(one)
        assert not leads(first)
        await first.resign()
        assert leads(second)


async def test_waiting_for_the_loss_can_be_cancelled(elections: Elections) -> None:
    async with elections.opened(ONE) as one:
        leadership = await won(one)
        noticed = asyncio.create_task(leadership.wait_lost())
        await asyncio.sleep(0.01)
        noticed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await noticed
        assert leads(leadership)


async def test_a_cancelled_campaign_leaves_no_trace(elections: Elections) -> None:
    """Cancelled at any point, behind a leader or on the way to winning: the next candidate is not held up."""
    shuffled = random.Random(3)
    async with elections.opened(ONE) as one, elections.opened(OTHER) as other, elections.opened(THIRD) as third:
        for _ in range(ROUNDS):
            leader = await won(one)
            campaign = asyncio.create_task(other.campaign())
            await asyncio.sleep(shuffled.random() * 0.2)
            if shuffled.random() < 0.5:
                await leader.resign()
            campaign.cancel()
            with suppress(asyncio.CancelledError):
                await (await campaign).resign()
            await leader.resign()
            await (await won(third)).resign()


async def test_closing_withdraws(elections: Elections) -> None:
    async with elections.opened(OTHER) as other:
        one = elections.build(ONE)
        await one.open()
        leadership = await won(one)
        await one.close()
        await one.close()
        assert not leads(leadership)
        await won(other)


async def test_closing_ends_a_campaign(elections: Elections) -> None:
    async with elections.opened(ONE) as one:
        await won(one)
        other = elections.build(OTHER)
        await other.open()
        campaign = asyncio.create_task(other.campaign())
        await asyncio.sleep(0.05)
        await other.close()
        with pytest.raises(StorageUnavailable):
            async with asyncio.timeout(DEADLINE):
                await campaign


async def test_open_can_be_repeated_and_a_closed_candidate_cannot_campaign(elections: Elections) -> None:
    one = elections.build(ONE)
    await one.open()
    await one.open()
    await (await won(one)).resign()
    await one.close()
    with pytest.raises(StorageUnavailable):
        await one.campaign()
    await one.open()
    await won(one)
    await one.close()


@pytest.mark.parametrize("elections", cases(ELECTIONS, shared=True), indirect=True)
async def test_of_three_processes_one_leads_at_a_time(elections: Elections, tmp_path: Path) -> None:
    """Each leader makes a file that must not be there yet, and removes it before it resigns."""
    arguments = (elections.backend.name, elections.address, str(tmp_path / "witness"), str(ROUNDS))
    module = "tests.contracts.children.turns"
    async with child(module, *arguments) as one, child(module, *arguments) as other, child(module, *arguments) as third:
        for each in (one, other, third):
            assert await each.rest(120) == ["alone"] * ROUNDS
            assert await each.ended() == 0


@pytest.mark.parametrize("elections", cases(ELECTIONS, shared=True), indirect=True)
async def test_a_killed_leader_is_followed_and_no_longer_named(elections: Elections) -> None:
    async with process(elections, ONE) as one, elections.opened(OTHER) as other:
        await one.say("campaign")
        assert await one.line() == "leading"
        await until_leader_is(other, ONE)
        await one.kill()
        await until_leader_is(other, None)
        await won(other)
        await until_leader_is(other, OTHER)


@pytest.mark.parametrize("elections", cases(ELECTIONS, shared=True), indirect=True)
async def test_a_candidate_that_waits_follows_a_killed_leader(elections: Elections) -> None:
    async with process(elections, ONE) as one, process(elections, OTHER) as other:
        await one.say("campaign")
        assert await one.line() == "leading"
        await other.say("campaign")
        await one.kill()
        assert await other.line() == "leading"


@pytest.mark.parametrize("elections", cases(ELECTIONS, shared=True), indirect=True)
async def test_a_leader_in_another_process_can_resign(elections: Elections) -> None:
    async with process(elections, ONE) as one, elections.opened(OTHER) as other:
        await one.say("campaign")
        assert await one.line() == "leading"
        await one.say("resign")
        assert await one.line() == "resigned"
        await won(other)


@pytest.mark.parametrize("elections", cases(ELECTIONS, shared=True), indirect=True)
async def test_a_leader_that_was_paused_leads_on_or_knows_that_it_does_not(elections: Elections) -> None:
    """A lease ends meanwhile, and another wins: then the one that wakes up must not believe that it leads. A lock on a
    file does not end.
    """
    ends = elections.backend.name != "embedded"
    async with process(elections, ONE) as one, elections.opened(OTHER) as other:
        await one.say("campaign")
        assert await one.line() == "leading"
        one.pause()
        campaign = asyncio.create_task(other.campaign())
        followed, _ = await asyncio.wait([campaign], timeout=DEADLINE if ends else 2 * WHILE_NOTHING_HAPPENS)
        assert bool(followed) is ends
        if not followed:
            campaign.cancel()
            with suppress(asyncio.CancelledError):
                await campaign
        one.resume()
        await one.say("certain?")
        answer = await one.line()
        assert answer in ({"no", "lost"} if followed else {"yes"})

"""A replica that is asked to step down: what is in flight ends first, another leads, and nobody is told too much."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import Fenced, OutcomeUnknown, Unavailable
from milepost.wire import Code
from tests.service.acting import actor, held_back
from tests.support.servers.replicas import PROMPT, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
OTHER = "http://127.0.0.1:10"

PATIENT = replace(PROMPT, step_down_seconds=3600.0)
"""It stands as a candidate again once another leads, however busy the machine is on which that one has to notice."""


async def test_another_leads_and_the_first_stands_by_again(tmp_path: Path) -> None:
    place = embedded(tmp_path)
    async with rig(place, PATIENT) as first, rig(place, PATIENT, leading=False, advertise=OTHER) as second:
        added = await (await actor(first, "a")).add("pointer", b"state")
        term = first.replica.journal.term
        assert await first.operations.leading.step_down(term) == term
        assert not first.replica.leads, "it is answered after it stopped leading"
        await second.leads()
        assert await (await actor(second, "a")).listing() == [added]
        with pytest.raises(Fenced) as caught:
            await second.operations.leading.step_down(term)
        assert caught.value.extras["current"] == term + 1
        assert second.replica.leads, "whoever asks again for the sake of a lost answer deposes nobody else"


async def test_who_has_stepped_down_stands_by_as_soon_as_another_leads(tmp_path: Path) -> None:
    place = embedded(tmp_path)
    async with rig(place, PATIENT) as first, rig(place, PATIENT, leading=False, advertise=OTHER) as second:
        await first.operations.leading.step_down(None)
        await second.leads()

        async def stands_by() -> bool:
            return first.election.campaigns == 2

        await until(stands_by)
        await second.operations.leading.step_down(None)
        await first.leads()


async def test_who_has_stepped_down_stands_by_although_it_never_saw_the_other_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one led for so short a time that both of its neighbour's looks at the election missed it."""
    place = embedded(tmp_path)
    async with rig(place, PATIENT) as first, rig(place, PATIENT, leading=False, advertise=OTHER) as second:

        async def too_late() -> None:
            return None

        monkeypatch.setattr(first.replica.election, "leader", too_late)
        await first.operations.leading.step_down(None)
        await second.leads()
        await second.operations.leading.step_down(None)
        await first.leads()


async def test_one_without_others_leads_again_by_itself(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), replace(PROMPT, step_down_seconds=0.05)) as alone:
        a = await actor(alone, "a")
        for _ in range(2):
            term = alone.replica.journal.term
            assert await alone.operations.leading.step_down(None) == term
            await alone.leads()
            assert alone.replica.journal.term == term + 1
        await a.add("pointer", b"state")
        assert await a.read("pointer") == b"state"


async def test_what_is_in_flight_ends_first_and_nothing_more_is_admitted(tmp_path: Path) -> None:
    place = embedded(tmp_path)
    async with rig(place, PATIENT) as first, rig(place, leading=False) as second:
        a = await actor(first, "a")
        on_its_way, gate = await held_back(first, a, "on-its-way")
        asked = [asyncio.create_task(first.operations.leading.step_down(None)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as caught:
            await a.add("too-late", b"2")
        assert caught.value.code is Code.SHUTTING_DOWN
        assert not second.replica.leads
        gate.set()
        added = await on_its_way
        assert len(set(await asyncio.gather(*asked))) == 1, "both wait for the same end"
        await second.leads()
        assert await (await actor(second, "a")).listing() == [added]


async def test_a_write_that_does_not_end_is_of_unknown_outcome_and_the_lead_is_given_up_all_the_same(
    tmp_path: Path,
) -> None:
    place = embedded(tmp_path)
    async with rig(place, replace(PATIENT, resign_seconds=0.1)) as first, rig(place, leading=False) as second:
        a = await actor(first, "a")
        on_its_way, _gate = await held_back(first, a, "pointer")
        await first.operations.leading.step_down(None)
        with pytest.raises(OutcomeUnknown):
            await on_its_way
        await second.leads()
        assert await (await actor(second, "a")).names() == []


async def test_it_is_done_also_where_nobody_waits_for_the_answer(tmp_path: Path) -> None:
    """A leader that has begun to refuse requests must not stay one."""
    place = embedded(tmp_path)
    async with rig(place, PATIENT) as first, rig(place, leading=False) as second:
        a = await actor(first, "a")
        on_its_way, gate = await held_back(first, a, "on-its-way")
        asked = asyncio.create_task(first.operations.leading.step_down(None))
        await asyncio.sleep(0)
        asked.cancel()
        gate.set()
        await on_its_way
        await second.leads()


async def test_a_replica_that_does_not_lead_says_so(tmp_path: Path) -> None:
    place = embedded(tmp_path)
    async with rig(place), rig(place, leading=False) as second:
        with pytest.raises(Unavailable) as caught:
            await second.operations.leading.step_down(None)
        assert caught.value.code is Code.NO_LEADER


async def test_an_election_that_confirms_nothing_leaves_the_outcome_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No real election stays silent when it is told to, so the way out of the leadership is held up."""
    async with rig(embedded(tmp_path), replace(PATIENT, resign_seconds=0.05)) as running:
        assert running.replica.leadership is not None
        gate = asyncio.Event()
        monkeypatch.setattr(running.replica.leadership, "resign", gate.wait)
        with pytest.raises(OutcomeUnknown, match="has not confirmed"):
            await running.operations.leading.step_down(None)
        assert not running.replica.leads
        gate.set()

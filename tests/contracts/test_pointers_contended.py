"""Every pointer store: groups in flight and cancelled, stores and processes that contend, processes that are killed."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from msgspec.structs import replace

from milepost_backends.contract import Change, Done, PointerStore, Unknown
from tests.contracts.contending import Contender
from tests.contracts.factories import POINTERS
from tests.contracts.journals import ROOT, done, put, taken_over, writes
from tests.contracts.places import Place, cases
from tests.support.children import child
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

Pointers = Place[PointerStore]

GROUP = 8
CANCELLED_GROUPS = 40
KILLED_WRITERS = 6
REFUSALS = 5


def group_of(number: int) -> list[Change]:
    """Several records that stand or fall together."""
    return [Change(f"groups/{number}/{part}", b"x" * 500) for part in range(GROUP)]


def committed(found: dict[str, bytes]) -> set[int]:
    """The numbers of the groups that are there, each of them whole."""
    parts: dict[int, int] = {}
    for key in found:
        number = int(key.split("/")[1])
        parts[number] = parts.get(number, 0) + 1
    assert set(parts.values()) <= {GROUP}
    return set(parts)


async def test_groups_in_flight_land_in_order(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        begin = await store.take_over(ROOT)
        heads = [replace(begin, revision=begin.revision + number) for number in range(13)]
        flights = [(head, writes(last=b"%d" % number)) for number, head in enumerate(heads[:-1])]
        for first in range(0, len(flights), store.limits.in_flight):
            at_once = flights[first : first + store.limits.in_flight]
            ends = await asyncio.gather(*(store.commit(head, group, head.revision + 1) for head, group in at_once))
            assert [done(end) for end in ends] == heads[first + 1 : first + 1 + len(at_once)]
        assert (await taken_over(store))[1] == {"last": b"11"}


async def test_a_cancelled_commit_is_settled_by_a_take_over(pointers: Pointers) -> None:
    """Whole or not at all, and after the take-over not any more; the store goes on working."""
    shuffled = random.Random(7)
    async with pointers.opened() as store:
        head, _ = await taken_over(store)
        known: set[int] = set()
        for number in range(CANCELLED_GROUPS):
            flight = asyncio.ensure_future(store.commit(head, group_of(number), head.revision + GROUP))
            for _ in range(shuffled.randrange(6)):
                await asyncio.sleep(shuffled.choice((0, 0.001)))
            flight.cancel()
            end: object = None
            with suppress(asyncio.CancelledError):
                end = await flight
            head, found = await taken_over(store)
            if isinstance(end, Done):
                assert number in committed(found)
            assert known <= committed(found) <= known | {number}
            known = committed(found)
        await put(store, head, group_of(CANCELLED_GROUPS))
        assert committed((await taken_over(store))[1]) == known | {CANCELLED_GROUPS}


async def test_a_commit_on_its_way_while_the_store_closes_ends_truthfully(pointers: Pointers) -> None:
    for number in range(5):
        store = pointers.build()
        await store.open()
        head = await store.take_over(ROOT)
        flight = asyncio.ensure_future(store.commit(head, group_of(number), head.revision + GROUP))
        await asyncio.sleep(0)
        await store.close()
        end = await flight
        async with pointers.opened() as again:
            found = committed((await taken_over(again))[1])
        assert isinstance(end, Unknown) or (number in found) is isinstance(end, Done)


class Counting(Contender):
    """Counts how often each was refused."""

    def __init__(self, store: PointerStore, name: str, refusals: dict[str, int]) -> None:
        super().__init__(store, name)
        self._own = name
        self._refusals = refusals
        refusals[name] = 0

    def refused(self) -> None:
        self._refusals[self._own] += 1


async def test_a_contender_whose_store_is_closed_lets_others_on(pointers: Pointers) -> None:
    """Each of its take-overs fails before anything was waited for."""
    contender = Contender(pointers.build(), "one")
    async with asyncio.TaskGroup() as running:
        running.create_task(contender.run())
        await asyncio.sleep(0.1)
        contender.stopping = True


async def test_two_stores_that_take_over_from_each_other_lose_nothing(pointers: Pointers) -> None:
    refusals: dict[str, int] = {}
    async with pointers.opened() as one, pointers.opened() as other:
        contenders = [Counting(one, "one", refusals), Counting(other, "other", refusals)]

        async def enough() -> bool:
            return min(refusals.values()) >= REFUSALS

        async with asyncio.TaskGroup() as running:  # which ends them before the stores are closed, whatever happens
            for contender in contenders:
                running.create_task(contender.run())
            await until(enough, 240)
            for contender in contenders:
                contender.stopping = True
        added = sum(contender.added for contender in contenders)
        assert int((await taken_over(one))[1]["total"]) == added > 0


@pytest.mark.parametrize("pointers", cases(POINTERS, shared=True), indirect=True)
async def test_two_processes_that_take_over_from_each_other_lose_nothing(pointers: Pointers) -> None:
    module, arguments = "tests.contracts.children.contender", (pointers.backend.name, pointers.address)
    async with child(module, *arguments) as one, child(module, *arguments) as other:
        for each in (one, other):
            assert await each.line() == "ready"
        for each in (one, other):
            await each.say("go")
        for each in (one, other):
            for _ in range(REFUSALS):
                assert await each.line() == "refused"
        added = 0
        for each in (one, other):
            await each.say("stop")
            added += int((await each.rest())[-1])
            assert await each.ended() == 0
    async with pointers.opened() as store:
        assert int((await taken_over(store))[1]["total"]) == added > 0


@pytest.mark.parametrize("pointers", cases(POINTERS, shared=True), indirect=True)
async def test_what_a_killed_process_had_acknowledged_is_there(pointers: Pointers) -> None:
    module, arguments = "tests.contracts.children.writer", (pointers.backend.name, pointers.address)
    shuffled = random.Random(11)
    acknowledged = -1
    for _ in range(KILLED_WRITERS):
        async with child(module, *arguments, str(acknowledged + 1)) as writer:
            printed = [await writer.line() for _ in range(shuffled.randrange(1, 40))]
            await asyncio.sleep(shuffled.random() * 0.01)
            await writer.kill()
            printed += await writer.rest()
        async with pointers.opened() as store:
            found = committed((await taken_over(store))[1])
        assert found == set(range(max(found) + 1))
        assert acknowledged < int(printed[-1]) <= max(found) <= int(printed[-1]) + 1
        acknowledged = max(found)

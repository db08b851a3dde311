"""How a journal grows over segments, and shrinks again, in a real API server."""

from __future__ import annotations

import os
import random

import pytest

from milepost_backends.contract import Change, Done, Refusal
from milepost_backends.kubernetes.configmaps.memory import CAP, ChainMemory, allowed_space
from tests.backends.kubernetes.places import LAYOUT, Outsider, memory_of, opened, spare_is_there
from tests.contracts.journals import ROOT, put, records, refused, taken_over, writes
from tests.support.servers.kubernetes import Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

LARGE = CAP // 4


def record(number: int, size: int = 400) -> Change:
    return Change(f"stores/flights/handles/pointer-{number}", b"x" * size)


async def swept(outsider: Outsider, oldest: int) -> None:
    """Wait until no older segment is there."""

    async def gone() -> bool:
        return outsider.segments()[0] >= LAYOUT.segment(oldest)

    await until(gone)


async def test_a_segment_that_is_nearly_full_is_sealed_and_the_next_one_is_there_already(
    site: Site, outsider: Outsider
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
        assert outsider.states() == ["active", "empty"]
        head = await put(store, head, [Change(f"k{number}", b"x" * LARGE) for number in range(3)])
        assert outsider.states()[:2] == ["sealed", "empty"]
        assert outsider.head(LAYOUT.segment(1))["revision"] == head.revision
        assert await store.confirm(head)
        head = await put(store, head, writes(a=b"2"))
        assert outsider.states()[:2] == ["sealed", "active"]
        found = (await taken_over(store))[1]
        assert found == {"a": b"2", **{f"k{number}": b"x" * LARGE for number in range(3)}}


async def test_a_group_that_fills_half_of_that_seals_the_segment_by_itself(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        for number in range(7):
            head = await put(store, head, [Change(f"k{number}", b"x" * (LARGE // 8))])
        assert outsider.states()[0] == "active"
        head = await put(store, head, [Change("l", b"x" * LARGE)])
        await spare_is_there(store)
        await put(store, head, [Change("m", b"x" * (LARGE // 2))])
        assert outsider.states()[:2] == ["sealed", "sealed"]


async def test_a_group_that_does_not_fit_goes_to_the_next_segment_whole(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        group = [Change("a", b"a" * (LARGE // 2)), Change("z", b"z" * (LARGE // 4))]
        head = await put(store, await store.take_over(ROOT), group)
        head = await put(store, head, [Change("a", None), Change("b", b"b" * (CAP - 1000))])
        first, second = (outsider.get(LAYOUT.segment(number)) for number in (1, 2))
        assert set(first["data"]) == {"a", "z"}
        assert set(second["data"]) == {"a", "b"}
        assert second["data"]["a"] == "!deleted"
        assert set((await taken_over(store))[1]) == {"b", "z"}


async def test_a_deletion_leaves_a_tombstone_only_where_there_is_something_to_hide(
    site: Site, outsider: Outsider
) -> None:
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        head = await put(store, head, [Change("old", b"x" * CAP)])
        head = await put(store, head, writes(a=b"1"))
        head = await put(store, head, writes(a=None, old=None, never=None))
        assert outsider.get(LAYOUT.segment(2))["data"] == {"old": "!deleted"}
        assert await records(store, head) == {}


async def test_a_group_larger_than_a_segment_has_one_to_itself(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        values = {f"k{number}": os.urandom(60_000) for number in range(2)}
        await put(store, head, writes(**values))
        assert set(outsider.get(LAYOUT.segment(1))["data"]) == {"a"}
        assert set(outsider.get(LAYOUT.segment(2))["data"]) == set(values)
        assert (await taken_over(store))[1] == {"a": b"1", **values}


async def test_groups_larger_than_all_segments_should_be_are_compacted_too(site: Site) -> None:
    """As many short records whose keys grow when they are escaped."""
    async with opened(site.address(bytes_per_second="100000000")) as store:
        head = await store.take_over(ROOT)
        for turn in range(16):
            keys = (f"stores/s/paths/a/b/c/d/e/f/g/h/i/j/k/{turn % 2}-{number:04}" for number in range(1000))
            head = await put(store, head, [Change(key, b"y" * 210) for key in keys])
        assert memory_of(store).first > 1
        assert memory_of(store).space < allowed_space(memory_of(store).live) + 16 * CAP


async def test_what_is_rewritten_again_and_again_takes_bounded_space(site: Site, outsider: Outsider) -> None:
    shuffled = random.Random(5)
    numbers = range(200)
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        for begin in range(0, len(numbers), 50):
            head = await put(store, head, [record(number) for number in numbers[begin : begin + 50]])
        live = memory_of(store).live
        for _ in range(250):
            head = await put(store, head, [record(number, 401) for number in shuffled.sample(numbers, 8)])
            assert memory_of(store).space < allowed_space(live) + 4 * CAP
        assert memory_of(store).first > 1
        await swept(outsider, memory_of(store).first)
        held = sum(len(text) for item in outsider.all().values() for text in (item.get("data") or {}).values())
        assert held < allowed_space(live) + 4 * CAP
        assert len((await taken_over(store))[1]) == len(numbers)


async def test_deletions_leave_nothing_behind_in_the_end(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        for begin in range(0, 1200, 60):
            head = await put(store, head, [record(number) for number in range(begin, begin + 60)])
        for begin in range(0, 1200, 60):
            head = await put(store, head, [Change(record(number).key, None) for number in range(begin, begin + 60)])
        for number in range(40):
            head = await put(store, head, writes(a=b"%d" % number))
        memory = memory_of(store)
        assert memory.live < 100
        assert memory.space <= 4 * CAP + 1000
        await swept(outsider, memory.first)
        assert (await taken_over(store))[1] == {"a": b"39"}


async def test_a_journal_that_is_full_takes_what_makes_it_smaller_and_then_more_again(
    site: Site, outsider: Outsider
) -> None:
    most = 1024 * 1024
    address = site.address(bytes_per_second="100000000", most_bytes=str(most))
    async with opened(address) as store:
        assert store.limits.journal_bytes == most
        head, number = await store.take_over(ROOT), 0
        while True:
            end = await store.commit(head, [record(number, 16_000), record(number + 1, 16_000)], head.revision + 2)
            if not isinstance(end, Done):
                break
            head, number = end.head, number + 2
            assert number < 100
        assert refused(end) is Refusal.FULL
        assert memory_of(store).live > most
        head = await put(store, head, [record(0, 17_000), Change(record(1).key, None)])
        for gone in range(2, number // 2):
            head = await put(store, head, [Change(record(gone).key, None), *writes(tombstones=b"%d" % gone)])
        assert memory_of(store).live < most * 2 // 3
        head = await put(store, head, [record(number, 16_000), record(number + 1, 16_000)])
        assert memory_of(store).space < allowed_space(most) + 4 * CAP
        await swept(outsider, memory_of(store).first)


async def test_random_groups_leave_what_a_plain_dictionary_holds(site: Site) -> None:
    """What the leader thinks of its segments is also what a take-over would read from them."""
    shuffled = random.Random(3)
    expected: dict[str, bytes] = {}
    async with opened(site.address()) as store, opened(site.address()) as other:
        current = store
        head = await current.take_over(ROOT)
        for turn in range(300):
            group = []
            for number in shuffled.sample(range(120), shuffled.randrange(1, 12)):
                size = shuffled.choice((0, 10, 300, 300, 300, 5000))
                value = None if shuffled.random() < 0.3 else os.urandom(size // 2).hex().encode()
                group.append(Change(f"keys/{number}{'/long' * 70 * (number % 7 == 0)}", value))
            head = await put(current, head, group)
            for key, value in group:
                expected.pop(key, None)
                if value is not None:
                    expected[key] = value
            if turn % 50 == 49:
                before = memory_of(current)
                current = other if current is store else store
                head, found = await taken_over(current)
                assert found == expected
                listed = memory_of(current)
                assert figures(before) == figures(listed)


def figures(memory: ChainMemory) -> tuple[object, ...]:
    data = {number: segment.data for number, segment in memory.segments.items()}
    return memory.first, memory.last, memory.space, memory.live, data


async def test_fifty_thousand_records_load_whole(site: Site) -> None:
    count, value = 50_000, b'{"schema": 1, "filler": "' + b"x" * 430 + b'"}'
    address = site.address(bytes_per_second="100000000")
    async with opened(address) as store:
        head = await store.take_over(ROOT)
        for begin in range(0, count, 64):
            group = [Change(f"stores/s/handles/{number}", value) for number in range(begin, min(begin + 64, count))]
            head = await put(store, head, group)
    async with opened(address) as store:
        _, found = await taken_over(store)
        assert len(found) == count
        assert set(found.values()) == {value}

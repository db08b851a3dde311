"""Long work in slices: whatever else there is to do gets its turn after each one, however many work at length."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from milepost_server.basics.loop_time import LoopTimeBudget

pytestmark = pytest.mark.anyio

STEP, SLICE = 0.5, 2.0


class Work:
    """Steps that take time, by a clock of their own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.loop_time = LoopTimeBudget(lambda: self.now, SLICE)
        self.done: list[int] = []

    def step(self, number: int) -> None:
        self.now += STEP
        self.done.append(number)

    async def longest_between_turns(self, work: list[asyncio.Task[None]]) -> float:
        """The most time that passed between two turns of somebody who is always ready. What was used up before his turn
        and what was after it may come together.
        """
        longest = 0.0
        while not all(task.done() for task in work):
            began = self.now
            await asyncio.sleep(0)
            longest = max(longest, self.now - began)
        for task in work:
            task.result()
        return longest


async def test_others_wait_no_longer_however_many_work() -> None:
    work = Work()
    tasks = [asyncio.create_task(work.loop_time.each(range(50), work.step)) for _ in range(20)]
    assert await work.longest_between_turns(tasks) <= 2 * SLICE
    assert len(work.done) == 1000


async def test_what_is_gone_through_may_change_meanwhile() -> None:
    work = Work()
    names = list(range(0, 1000, 2))

    def behind(last: int) -> Iterator[int]:
        return (name for name in names if name > last)

    going = asyncio.create_task(work.loop_time.each_after(behind, -1, work.step))
    await asyncio.sleep(0)
    names.append(999)
    names.remove(998)
    assert await work.longest_between_turns([going]) <= 2 * SLICE
    assert work.done == names


async def test_who_has_enough_stops() -> None:
    work = Work()

    def some(number: int) -> bool:
        work.step(number)
        return len(work.done) == 5

    await work.loop_time.each_after(lambda last: iter(range(last + 1, 1000)), -1, some)
    assert work.done == [0, 1, 2, 3, 4]


async def test_who_is_broken_off_leaves_the_turn_to_others() -> None:
    work = Work()
    broken = asyncio.create_task(work.loop_time.each(range(1000), work.step))
    following = asyncio.create_task(work.loop_time.each(range(5000, 5010), work.step))
    await asyncio.sleep(0)
    broken.cancel()
    await following
    assert broken.cancelled()
    assert work.done[-10:] == list(range(5000, 5010))


async def test_short_work_is_done_in_one_go() -> None:
    work = Work()
    task = asyncio.create_task(work.loop_time.each(range(3), work.step))
    await asyncio.sleep(0)
    assert task.done()
    assert work.done == [0, 1, 2]

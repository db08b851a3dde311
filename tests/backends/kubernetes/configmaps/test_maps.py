"""The byte budget under a clock of its own."""

from __future__ import annotations

import asyncio

import pytest

from milepost_backends.kubernetes.configmaps.maps import ByteBudget

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_four_seconds_worth_may_be_written_at_once() -> None:
    budget = ByteBudget(1000.0, Clock())
    budget.take(4000)
    assert budget.wait_seconds == 0
    budget.take(500)
    assert budget.wait_seconds == pytest.approx(0.5)


def test_in_the_long_run_it_is_so_much_a_second() -> None:
    clock = Clock()
    budget = ByteBudget(1000.0, clock)
    begin, written = clock.now, 0
    while clock.now < begin + 1000:
        clock.now += budget.wait_seconds
        budget.take(700)
        written += 700
        clock.now += 0.01
    assert 0 <= written - 1000 * (clock.now - begin) <= 4000 + 700


def test_what_was_not_used_does_not_pile_up() -> None:
    clock = Clock()
    budget = ByteBudget(1000.0, clock)
    clock.now += 3600
    budget.take(5000)
    assert budget.wait_seconds == pytest.approx(1.0)


def test_more_than_all_of_it_may_be_written_and_the_next_one_waits() -> None:
    clock = Clock()
    budget = ByteBudget(1000.0, clock)
    budget.take(14_000)
    clock.now += 9.5
    assert budget.wait_seconds == pytest.approx(0.5)
    clock.now += 0.5
    assert budget.wait_seconds == 0


async def test_those_who_spend_at_the_same_time_wait_for_each_other() -> None:
    budget = ByteBudget(1_000_000.0, Clock())
    budget.take(4_000_000)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await asyncio.gather(*(budget.spend(20_000) for _ in range(6)))
    assert loop.time() - begin >= 0.09


async def test_who_is_cancelled_while_waiting_leaves_nobody_longer_to_wait() -> None:
    budget = ByteBudget(1000.0, Clock())
    budget.take(14_000)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await budget.spend(300_000)
    assert budget.wait_seconds == pytest.approx(10.0)

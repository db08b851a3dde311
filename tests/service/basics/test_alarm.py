"""One timer for many deadlines, in virtual time."""

from __future__ import annotations

import asyncio
import math

from milepost_server.basics.alarm import Alarm
from tests.simulation.world.loop import VirtualLoop


def rung(deadlines: list[float], *, until: float, ended_at: float = math.inf) -> list[float]:
    """Set the alarm to each of the deadlines, and return when it rang for one that had come."""
    loop = VirtualLoop()  # type: ignore[abstract]  # as in the simulator, what is never called is left out
    loop.call_later(3600.0, lambda: None)  # the loop takes it for a fault if nothing is left to happen
    waiting, found = list(deadlines), list[float]()

    def ring(now: float) -> float | None:
        for at in [at for at in waiting if at <= now]:
            waiting.remove(at)
            found.append(now)
        return min(waiting, default=None)

    async def scene() -> None:
        alarm = Alarm(loop.time, ring)
        for at in deadlines:
            alarm.set(at)
        loop.call_later(min(until, ended_at), alarm.end)
        await asyncio.sleep(until)

    loop.run(scene())
    return found


def test_it_rings_once_for_each_time_in_whatever_order_they_were_set() -> None:
    assert rung([3.0, 1.0, 2.0, 1.0], until=10.0) == [1.0, 1.0, 2.0, 3.0]


def test_it_rings_at_once_for_a_time_that_is_over() -> None:
    assert rung([5.0, -1.0], until=10.0) == [0.0, 5.0]


def test_it_does_not_ring_once_it_was_ended() -> None:
    assert rung([1.0, 7.0], until=10.0, ended_at=2.0) == [1.0]

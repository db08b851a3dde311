"""Groups wait for those who come back at once, in virtual time: what is waited for is time itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from milepost_backends.contract import Change, Commit, Done, GroupLimits, Head
from milepost_server.journal import Journal
from milepost_server.journal.commit.batching import MOST_SECONDS, AdaptiveBatching
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.sessions import OpenSession
from tests.simulation.world.loop import VirtualLoop

COMMIT = 0.01
T = TypeVar("T")


class Bench:
    """A batching, and how often it said that a wait was over by time."""

    def __init__(self) -> None:
        self.ended = 0
        self.batching = AdaptiveBatching(self._count)

    def _count(self) -> None:
        self.ended += 1

    async def round(self, answered: int, after: float, *, commit: float = COMMIT) -> None:
        """A commit, of which so many are answered; all of them come back, the last of them ``after`` seconds."""
        await self.committed(answered, commit)
        await asyncio.sleep(after)
        for _ in range(answered):
            self.batching.arrived()

    async def committed(self, answered: int, commit: float = COMMIT) -> None:
        self.batching.launched()
        await asyncio.sleep(commit)
        self.batching.committed(answered)


def run(scene: Callable[[Bench], Awaitable[None]]) -> Bench:
    """Play the scene in virtual time."""

    async def played() -> Bench:
        bench = Bench()
        await scene(bench)
        return bench

    return in_virtual_time(played())


def in_virtual_time(scene: Coroutine[Any, Any, T]) -> T:
    """Run it. (The loop takes it for a fault if nothing is left to happen, so something is.)"""
    loop = VirtualLoop()  # type: ignore[abstract]  # as in the simulator, what is never called is left out
    loop.call_later(3600.0, lambda: None)
    return loop.run(scene)


def test_nothing_is_waited_for_at_first() -> None:
    async def scene(bench: Bench) -> None:
        assert bench.batching.complete()
        await bench.committed(8)
        assert bench.batching.complete()

    run(scene)


def test_those_who_came_back_sooner_than_a_commit_takes_are_waited_for() -> None:
    async def scene(bench: Bench) -> None:
        await bench.round(8, after=COMMIT / 2)
        assert bench.batching.complete()
        await bench.committed(8)
        for _ in range(7):
            bench.batching.arrived()
            assert not bench.batching.complete()
        bench.batching.arrived()
        assert bench.batching.complete()

    assert run(scene).ended == 0


def test_those_who_came_back_later_are_not() -> None:
    async def scene(bench: Bench) -> None:
        await bench.round(8, after=COMMIT * 1.5)
        await bench.committed(8)
        assert bench.batching.complete()

    run(scene)


def test_a_single_caller_is_never_held_up() -> None:
    async def scene(bench: Bench) -> None:
        for _ in range(3):
            await bench.round(1, after=COMMIT / 10)
            assert bench.batching.complete()

    assert run(scene).ended == 0


def test_clients_that_stay_away_are_waited_for_once_and_as_long_as_a_commit_takes() -> None:
    async def scene(bench: Bench) -> None:
        await bench.round(8, after=COMMIT / 2)
        await bench.committed(8)
        bench.batching.arrived()
        assert not bench.batching.complete()
        await asyncio.sleep(COMMIT * 0.9)
        assert (bench.ended, bench.batching.complete()) == (0, False)
        await asyncio.sleep(COMMIT * 0.2)
        assert (bench.ended, bench.batching.complete()) == (1, True)
        await bench.committed(1)
        assert bench.batching.complete()

    assert run(scene).ended == 1


def test_nobody_is_waited_for_much_longer_than_anybody_would_notice() -> None:
    async def scene(bench: Bench) -> None:
        await bench.round(8, after=1.0, commit=5.0)
        await bench.committed(8, commit=5.0)
        assert not bench.batching.complete()
        await asyncio.sleep(MOST_SECONDS * 1.1)
        assert bench.batching.complete()

    assert run(scene).ended == 1


def test_a_wait_that_was_given_up_does_not_end_again() -> None:
    async def scene(bench: Bench) -> None:
        await bench.round(8, after=COMMIT / 2)
        await bench.committed(8)
        assert not bench.batching.complete()
        bench.batching.give_up()
        assert bench.batching.complete()
        await asyncio.sleep(1.0)

    assert run(scene).ended == 0


class SlowPointers:
    """Commits take ``COMMIT`` seconds of virtual time, which no real store keeps to. After one is sent, the next waits
    for ``ration`` seconds.
    """

    def __init__(self, ration: float = 0.0) -> None:
        self.limits = GroupLimits(in_flight=1)
        self.place = "slow"
        self.bytes_sent = 0
        self.sizes: list[int] = []
        self._ration = ration
        self._next = 0.0

    @property
    def full(self) -> str | None:
        return None

    @property
    def commit_delay(self) -> float:
        return max(0.0, self._next - asyncio.get_running_loop().time())

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def journals(self) -> Sequence[str]:
        return []

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        return Head(journal, 1, 1, "l") if ours is None else replace(ours, term=ours.term + 1)

    async def load(self, _: Head) -> AsyncIterator[Change]:
        for change in list[Change]():
            yield change

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        self.sizes.append(len(changes))
        await asyncio.sleep(self.commit_delay)
        self._next = asyncio.get_running_loop().time() + self._ration
        await asyncio.sleep(COMMIT)
        return Done(replace(head, revision=revision, digest=digest or head.digest))

    async def confirm(self, _: Head) -> bool:
        return True


class Held:
    """Leads for ever."""

    def remaining(self, _: float) -> float:
        return 60.0

    async def wait_lost(self) -> None: ...

    async def resign(self) -> None: ...


@pytest.mark.parametrize(("ration", "pause"), [(0.0, COMMIT / 20), (20 * COMMIT, 2 * COMMIT)])
def test_writers_that_ask_again_at_once_share_their_groups(ration: float, pause: float) -> None:
    """Eight writers that come back one after another, all of them before another commit would have ended, or could be
    sent. Were the first of them committed alone, half of the groups would have one member.
    """
    writers, rounds = 8, 20

    async def scene() -> list[int]:
        pointers, loop = SlowPointers(ration), asyncio.get_running_loop()
        journal = Journal("j", pointers, clock=loop.time, wall=lambda: "now")
        await journal.lead(Held())
        running = asyncio.create_task(journal.run())
        pointers.sizes.clear()

        async def writer(number: int) -> None:
            for turn in range(rounds):
                await asyncio.sleep(pause * (number + 1))
                request = OpenSession(Attempt(f"s{number}"), ttl=1.0 + turn)
                await journal.wait(journal.submit(request, loop.time() + 60.0))

        await asyncio.gather(*(writer(number) for number in range(writers)))
        await journal.drain()
        running.cancel()
        return pointers.sizes

    sizes = in_virtual_time(scene())
    assert sum(sizes) == writers * rounds
    assert set(sizes[4:-4]) == {writers}

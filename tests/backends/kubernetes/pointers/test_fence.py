"""The fence on a real API server: leaders that pause at every point of what they write, and go on too late.

A pause is made by holding up one call of a store to its own ConfigMaps; everything that is sent is real.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from milepost_backends.contract import Change, JournalDamaged, Refusal, StorageUnavailable, TakeOverLost
from milepost_backends.kubernetes.configmaps.memory import CAP
from milepost_backends.kubernetes.errors import NoAnswer
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from tests.backends.kubernetes.places import LAYOUT, Outsider, memory_of, opened, spare_is_there
from tests.contracts.journals import ROOT, done, put, records, refused, taken_over, writes
from tests.support.servers.kubernetes import Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

FULL = [Change("full", b"x" * (CAP * 7 // 8))]
SOME = b"1" * (CAP * 7 // 32)
"""Not enough to seal a segment, but too much for a full one."""

Call = Callable[..., Awaitable[Any]]


class Pause:
    """Holds up a call that a store makes, the ``number``-th from now on, before it is sent."""

    def __init__(self, number: int = 1) -> None:
        self.reached = asyncio.Event()
        self.over = asyncio.Event()
        self._left = number

    async def begun(self) -> None:
        """Wait until it is held up."""
        async with asyncio.timeout(60):
            await self.reached.wait()

    def around(self, call: Call) -> Call:
        async def held(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.reached.set()
                await self.over.wait()
            return await call(*arguments, **named)

        return held


@asynccontextmanager
async def paused(store: KubernetesPointers, method: str, number: int = 1) -> AsyncIterator[Pause]:
    """Hold up one call of this method of the store's ConfigMaps."""
    pause = Pause(number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._maps, method, pause.around(getattr(store._maps, method)))
        try:
            yield pause
        finally:
            pause.over.set()


async def test_a_group_that_was_held_up_is_refused_after_a_take_over(site: Site) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await put(older, await older.take_over(ROOT), writes(a=b"1"))
        async with paused(older, "replace") as pause:
            late = asyncio.create_task(older.commit(head, writes(a=b"late"), head.revision + 1))
            await pause.begun()
            new = await put(leader, await leader.take_over(ROOT), writes(b=b"2"))
            pause.over.set()
            assert refused(await late) is Refusal.HEAD_MOVED
        assert await records(leader, new) == {"a": b"1", "b": b"2"}


async def test_a_leader_paused_between_sealing_and_the_next_segment_is_fenced_there(site: Site) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await put(older, await older.take_over(ROOT), writes(a=SOME))
        await spare_is_there(older)
        async with paused(older, "replace", number=2) as pause:
            late = asyncio.create_task(older.commit(head, [*FULL, *writes(late=b"1")], head.revision + 2))
            await pause.begun()
            new = await put(leader, await leader.take_over(ROOT), writes(b=b"2"))
            pause.over.set()
            assert refused(await late) is Refusal.HEAD_MOVED
        assert await records(leader, new) == {"a": SOME, "b": b"2"}


async def test_the_same_group_lands_if_nobody_takes_over(site: Site, outsider: Outsider) -> None:
    """This shows that the tests above are refused for the reason that they give."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=SOME))
        await spare_is_there(store)
        async with paused(store, "replace", number=2) as pause:
            late = asyncio.create_task(store.commit(head, [*FULL, *writes(late=b"1")], head.revision + 2))
            await pause.begun()
            assert outsider.states() == ["sealed", "empty"]
            pause.over.set()
            done(await late)
        assert set((await taken_over(store))[1]) == {"a", "full", "late"}


async def test_groups_that_land_between_listing_and_fence_are_part_of_the_take_over(site: Site) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await put(older, await older.take_over(ROOT), writes(k0=b"1"))
        async with paused(leader, "replace") as pause:
            taking = asyncio.create_task(leader.take_over(ROOT))
            await pause.begun()
            for number in range(1, 4):
                head = await put(older, head, writes(**{f"k{number}": b"1"}))
            pause.over.set()
            new = await taking
        assert (new.term, new.revision) == (head.term + 1, head.revision + 1)
        assert await records(leader, new) == {f"k{number}": b"1" for number in range(4)}
        assert refused(await older.commit(head, writes(late=b"1"), head.revision + 9)) is Refusal.HEAD_MOVED


async def test_a_segment_that_is_sealed_between_listing_and_fence_is_not_the_one_to_fence(site: Site) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await put(older, await older.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(older)
        async with paused(leader, "replace") as pause:
            taking = asyncio.create_task(leader.take_over(ROOT))
            await pause.begun()
            head = await put(older, head, FULL)
            head = await put(older, head, writes(a=b"2"))
            pause.over.set()
            new = await taking
        assert set(await records(leader, new)) == {"a", "full"}
        assert refused(await older.commit(head, writes(late=b"1"), head.revision + 9)) is Refusal.HEAD_MOVED


async def test_of_two_that_take_over_at_once_one_leads(site: Site) -> None:
    async with opened(site.address()) as one, opened(site.address()) as other:
        await put(one, await one.take_over(ROOT), writes(a=b"1"))
        async with paused(one, "replace") as pause:
            taking = asyncio.create_task(one.take_over(ROOT))
            await pause.begun()
            new = await other.take_over(ROOT)
            pause.over.set()
            with pytest.raises(TakeOverLost):
                await taking
        await put(other, new, writes(a=b"2"))


async def test_one_that_fenced_but_was_overtaken_before_it_could_say_so_does_not_lead(site: Site) -> None:
    """The witness never goes back to an earlier term."""
    async with opened(site.address()) as one, opened(site.address()) as other:
        await put(one, await one.take_over(ROOT), writes(a=b"1"))
        async with paused(one, "replace", number=2) as pause:
            taking = asyncio.create_task(one.take_over(ROOT))
            await pause.begun()
            new = await other.take_over(ROOT)
            pause.over.set()
            with pytest.raises(TakeOverLost):
                await taking
        await put(other, new, writes(a=b"2"))


async def test_a_leader_is_deposed_by_the_fence_whether_it_is_recorded_yet_or_not(site: Site) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await put(older, await older.take_over(ROOT), writes(a=b"1"))
        async with paused(leader, "replace", number=2) as pause:
            taking = asyncio.create_task(leader.take_over(ROOT))
            await pause.begun()
            assert refused(await older.commit(head, writes(a=b"late"), head.revision + 1)) is Refusal.HEAD_MOVED
            pause.over.set()
            assert await records(leader, await taking) == {"a": b"1"}


async def test_a_take_over_whose_end_is_unknown_can_be_repeated(site: Site) -> None:
    """The answer is lost, which a server cannot be told to do: the fence of the first attempt has been committed."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        real = store._maps.replace

        async def lost(*arguments: Any, **named: Any) -> Any:
            await real(*arguments, **named)
            raise NoAnswer("lost")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store._maps, "replace", lost)
            with pytest.raises(StorageUnavailable):
                await store.take_over(ROOT)
        new = await store.take_over(ROOT)
        assert new.term == head.term + 2
        assert await records(store, new) == {"a": b"1"}


async def test_an_own_fence_that_lands_during_the_next_attempt_is_no_other_leader(site: Site) -> None:
    async with opened(site.address()) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1"))
        real, late = store._maps.replace, []

        async def held_up(*arguments: Any, **named: Any) -> Any:
            late.append((arguments, named))
            raise NoAnswer("held up")

        async def after_the_late_one(*arguments: Any, **named: Any) -> Any:
            if late:
                first, how = late.pop()
                await real(*first, **how)
            return await real(*arguments, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store._maps, "replace", held_up)
            with pytest.raises(StorageUnavailable):
                await store.take_over(ROOT)
            patch.setattr(store._maps, "replace", after_the_late_one)
            new = await store.take_over(ROOT)
        assert await records(store, new) == {"a": b"1"}


async def test_a_late_creation_of_a_segment_is_used_or_is_garbage(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        async with paused(older, "create", number=4) as pause:  # after the first segment, the witness and the mark
            head = await put(older, await older.take_over(ROOT), writes(a=b"1"))
            await pause.begun()
            new, _ = await taken_over(leader)
            for number in range(40):
                new = await put(leader, new, [Change("full", b"%d" % (number % 10) * (CAP * 7 // 8))])
            number = memory_of(leader).first

            async def swept() -> bool:
                return outsider.segments()[0] == LAYOUT.segment(number)

            await until(swept)
            assert number > 2
            pause.over.set()

            async def committed() -> bool:
                return LAYOUT.segment(2) in outsider.segments()

            await until(committed)
        assert refused(await older.commit(head, writes(late=b"1"), head.revision + 1)) is Refusal.HEAD_MOVED
        new, found = await taken_over(leader)
        assert found == {"a": b"1", "full": b"9" * (CAP * 7 // 8)}
        await until(swept)


async def test_a_sealed_segment_whose_next_one_is_gone_gets_another_by_its_leader_alone(
    site: Site, outsider: Outsider
) -> None:
    """To everybody else, the missing one may have held groups."""
    async with opened(site.address()) as store, opened(site.address()) as other:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
        head = await put(store, head, FULL)
        await spare_is_there(store)
        for name in outsider.segments()[1:]:
            outsider.delete(name)
        with pytest.raises(JournalDamaged, match=LAYOUT.segment(2)):
            await other.take_over(ROOT)
        head = await put(store, head, writes(a=b"2"))
        assert set(await records(store, head)) == {"a", "full"}
        assert (await taken_over(other))[1]["a"] == b"2"

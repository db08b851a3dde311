"""A leader takes its journal over again, since the outcome of a group is not known, after others' hands were there.

Its lease holds, so what it remembers is the truth until a later term is shown to have written. That an answer is lost,
or a request late, is made by holding up one call of a store to its own ConfigMaps; everything that is sent is real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from milepost_backends.contract import (
    Change,
    CommitRefused,
    Done,
    Head,
    JournalDamaged,
    Refusal,
    StorageUnavailable,
    Unknown,
)
from milepost_backends.kubernetes.configmaps.memory import CAP
from milepost_backends.kubernetes.configmaps.objects import HEAD
from milepost_backends.kubernetes.errors import NoAnswer
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from tests.backends.kubernetes.places import (
    LAYOUT,
    Outsider,
    backup,
    opened,
    spare_is_there,
    wipe,
    witness_is_current,
)
from tests.contracts.journals import ROOT, put, records, refused, taken_over, writes
from tests.support.servers.kubernetes import Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

FIRST, LAST, SPARE = (LAYOUT.segment(number) for number in (1, 2, 3))
FULL = [Change("full", b"x" * (CAP * 7 // 8))]
HELD = {"full": FULL[0].value, "a": b"2", "b": b"1"}
Harm = Callable[[Outsider, dict[str, Any]], None]


async def two_segments(store: KubernetesPointers) -> Head:
    """A sealed segment, a last one with an older copy to bring back, and the empty next one."""
    head = await store.take_over(ROOT)
    await spare_is_there(store)
    head = await put(store, head, [*FULL, *writes(a=b"1", b=b"1")])
    head = await put(store, head, writes(c=b"1"))
    await spare_is_there(store)
    return head


async def in_doubt(store: KubernetesPointers, head: Head, is_committed: str) -> list[tuple[Any, Any]]:
    """A group that deletes ``d`` and ends without an answer; what is still on its way of it."""
    real, late = store._maps.replace, list[tuple[Any, Any]]()

    async def lost(*arguments: Any, **named: Any) -> Any:
        if is_committed == "at once":
            await real(*arguments, **named)
        else:
            late.append((arguments, named))
        raise NoAnswer("lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._maps, "replace", lost)
        end = await store.commit(head, writes(d=b"new"), head.revision + 1, digest="doubt")
    assert isinstance(end, Unknown), end
    return late


def nothing(_: Outsider, __: dict[str, Any]) -> None:
    pass


def edits(outsider: Outsider, _: dict[str, Any]) -> None:
    outsider.patch(LAST, {"data": {"a": "theirs", "c": None, "more": "theirs"}})


def wipes(outsider: Outsider, _: dict[str, Any]) -> None:
    wipe(outsider, LAST)


def deletes(outsider: Outsider, _: dict[str, Any]) -> None:
    outsider.delete(LAST)


def restores(outsider: Outsider, saved: dict[str, Any]) -> None:
    outsider.put(LAST, saved)


def freezes(outsider: Outsider, _: dict[str, Any]) -> None:
    outsider.patch(LAST, {"immutable": True})


def edits_and_freezes(outsider: Outsider, _: dict[str, Any]) -> None:
    outsider.patch(LAST, {"data": {"a": "theirs"}, "immutable": True})


def deletes_what_holds_nothing(outsider: Outsider, _: dict[str, Any]) -> None:
    outsider.delete(LAYOUT.witness)
    outsider.delete(SPARE)


def wipes_with_all_that_tells(outsider: Outsider, _: dict[str, Any]) -> None:
    for name in (LAYOUT.witness, LAYOUT.deployment_marker):
        outsider.delete(name)
    wipe(outsider, LAST)


def deletes_everything(outsider: Outsider, _: dict[str, Any]) -> None:
    for name in outsider.all():
        outsider.delete(name)


HARMS = (
    nothing,
    edits,
    wipes,
    deletes,
    restores,
    freezes,
    edits_and_freezes,
    deletes_what_holds_nothing,
    wipes_with_all_that_tells,
    deletes_everything,
)
KNOWN = (nothing, edits, freezes, edits_and_freezes, deletes_what_holds_nothing)
"""After which the head still tells whether the group in doubt has been committed."""


@pytest.mark.parametrize("is_committed", ["at once", "late"])
@pytest.mark.parametrize("harm", HARMS)
async def test_what_a_leader_remembers_is_put_back_and_the_group_in_doubt_has_landed_or_never_does(
    site: Site, outsider: Outsider, harm: Harm, is_committed: str
) -> None:
    async with opened(site.address()) as store:
        head = await two_segments(store)
        saved = backup(outsider, LAST)
        head = await put(store, head, writes(a=b"2", c=None))
        late = await in_doubt(store, head, is_committed)
        harm(outsider, saved)
        new = await store.take_over(ROOT, head)
        assert new.term == head.term + 1
        assert new.revision > head.revision
        found = await records(store, new)
        committed = {"d": b"new"} if is_committed == "at once" and harm in KNOWN else {}
        assert found == {**HELD, **committed}
        assert new.digest == ("doubt" if committed else head.digest)
        for arguments, named in late:
            assert not (await store._maps.replace(*arguments, **named)).done
        new = await put(store, new, writes(e=b"3"))
        assert await records(store, new) == {**found, "e": b"3"}
        await store.check()
        await spare_is_there(store)
        assert set(outsider.get(FIRST)["data"]) == {"full", "a", "b"}
    async with opened(site.address()) as other:
        assert (await taken_over(other))[1] == {**found, "e": b"3"}


async def test_it_puts_everything_back_by_itself_soon_after(site: Site, outsider: Outsider) -> None:
    """The sealed segment too, which no group meets, though the next check is far away."""
    async with opened(site.address()) as store:
        head = await two_segments(store)
        await in_doubt(store, head, "late")
        deletes_everything(outsider, {})
        await store.take_over(ROOT, head)

        async def is_back() -> bool:
            return {FIRST, LAST, SPARE, LAYOUT.witness, LAYOUT.deployment_marker} <= set(outsider.all())

        await until(is_back)


async def test_a_sealing_in_doubt_is_found_and_groups_go_on_in_the_next_segment(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        head = await two_segments(store)
        real = store._maps.replace

        async def lost(*arguments: Any, **named: Any) -> Any:
            await real(*arguments, **named)
            raise NoAnswer("lost")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store._maps, "replace", lost)
            assert isinstance(await store.commit(head, FULL, head.revision + 1), Unknown)
        edits(outsider, {})
        new = await store.take_over(ROOT, head)
        new = await put(store, new, writes(a=b"3"))
        assert outsider.states()[:3] == ["sealed", "sealed", "active"]
        await store.check()
    async with opened(site.address()) as other:
        assert (await taken_over(other))[1] == {"full": FULL[0].value, "a": b"3", "b": b"1", "c": b"1"}


async def test_what_a_later_term_wrote_counts_and_not_what_is_remembered(site: Site) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await put(older, await older.take_over(ROOT), writes(a=b"1"))
        await in_doubt(older, head, "late")
        await put(leader, await leader.take_over(ROOT), writes(a=b"2"))
        new = await older.take_over(ROOT, head)
        assert await records(older, new) == {"a": b"2"}


@pytest.mark.parametrize("left", [LAYOUT.witness, LAYOUT.deployment_marker])
async def test_a_later_term_of_which_only_one_sign_is_left_is_not_undone(
    site: Site, outsider: Outsider, left: str
) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await put(older, await older.take_over(ROOT), writes(a=b"1"))
        await in_doubt(older, head, "late")
        await put(leader, await leader.take_over(ROOT), writes(a=b"2"))
        await witness_is_current(leader)
        wipe(outsider, LAYOUT.segment(1))
        outsider.delete(({LAYOUT.witness, LAYOUT.deployment_marker} - {left}).pop())
        with pytest.raises(JournalDamaged):
            await older.take_over(ROOT, head)


async def test_who_was_paused_and_put_back_what_it_remembered_does_not_undo_its_successor(
    site: Site, outsider: Outsider
) -> None:
    """Everything that recorded that was deleted. It is of a later term then, but knows less."""
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await put(older, await older.take_over(ROOT), writes(a=b"1"))
        await in_doubt(older, head, "late")
        new = await leader.take_over(ROOT)
        for number in range(3):
            new = await put(leader, new, writes(a=b"%d" % number))
        deletes_everything(outsider, {})
        stale = await older.take_over(ROOT, head)
        assert stale.revision < new.revision
        assert refused(await leader.commit(new, writes(b=b"1"), new.revision + 1)) is Refusal.HEAD_MOVED
        newest = await leader.take_over(ROOT, new)
        assert newest.term > max(stale.term, new.term)
        assert await records(leader, newest) == {"a": b"2"}
        assert refused(await older.commit(stale, writes(b=b"1"), stale.revision + 9)) is Refusal.HEAD_MOVED


async def test_a_leader_that_cannot_tell_who_led_last_says_so_and_goes_on_under_a_new_term(
    site: Site, outsider: Outsider
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        for name in (LAYOUT.witness, LAYOUT.deployment_marker):
            outsider.delete(name)
        wipe(outsider, FIRST)
        end = await store.commit(head, writes(b=b"2"), head.revision + 1)
        assert refused(end) is Refusal.HEAD_MOVED
        assert outsider.get(FIRST)["data"] == {"theirs": "1"}
        new = await put(store, await store.take_over(ROOT, head), writes(b=b"2"))
        assert await records(store, new) == {"a": b"1", "b": b"2"}


async def test_a_group_goes_on_without_the_witness_while_the_head_is_the_leaders_own(
    site: Site, outsider: Outsider
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        for name in (LAYOUT.witness, LAYOUT.deployment_marker):
            outsider.delete(name)
        outsider.patch(FIRST, {"data": {"a": "theirs"}})
        head = await put(store, head, writes(b=b"2"))
        assert await records(store, head) == {"a": b"1", "b": b"2"}


async def test_what_a_leader_remembers_is_kept_until_it_could_take_over_again(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await in_doubt(store, head, "late")
        edits_last = {"data": {"a": "theirs"}}
        outsider.patch(FIRST, edits_last)
        real, tries = store._maps.replace, 0

        async def fails_twice(*arguments: Any, **named: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise NoAnswer("lost before it arrived")
            answer = await real(*arguments, **named)
            if tries == 2:
                raise NoAnswer("its answer is lost")
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store._maps, "replace", fails_twice)
            for _ in range(2):
                with pytest.raises(StorageUnavailable):
                    await store.take_over(ROOT, head)
            outsider.patch(FIRST, edits_last)
            new = await store.take_over(ROOT, head)
        assert await records(store, new) == {"a": b"1"}


async def test_a_head_that_is_wiped_right_after_the_take_over_costs_only_another_one(
    site: Site, outsider: Outsider
) -> None:
    """Whoever asks again names the head that it committed last, of a term before."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await in_doubt(store, head, "late")
        for _ in range(2):
            new = await store.take_over(ROOT, head)
            wipe(outsider, FIRST)
            with pytest.raises(StorageUnavailable, match="another program changed the head"):
                await records(store, new)
        assert await records(store, await store.take_over(ROOT, head)) == {"a": b"1"}


async def test_while_somebody_keeps_editing_groups_end_truthfully_and_nothing_is_lost(
    site: Site, outsider: Outsider
) -> None:
    """A writer that takes the segment for its own writes to it as fast as it can."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        stopping, edited = asyncio.Event(), 0

        async def keep_editing() -> None:
            nonlocal edited
            while not stopping.is_set():
                edited += 1
                change = {"data": {"a": f"theirs {edited}", f"more-{edited % 3}": "theirs"}}
                await asyncio.to_thread(outsider.patch, FIRST, change)

        editing = [asyncio.create_task(keep_editing()) for _ in range(2)]
        ends = []
        for number in range(30):
            end = await store.commit(head, writes(b=b"%d" % number), head.revision + 1)
            ends.append(end)
            if isinstance(end, Done):
                head = end.head
            else:
                assert isinstance(end, CommitRefused)
                assert end.reason is Refusal.FAILED
        stopping.set()
        await asyncio.gather(*editing)
        assert edited > 30
        head = await put(store, head, writes(b=b"end"))
        assert await records(store, head) == {"a": b"1", "b": b"end"}
    async with opened(site.address()) as other:
        assert (await taken_over(other))[1] == {"a": b"1", "b": b"end"}


async def test_less_than_was_committed_is_refused_also_where_nothing_is_remembered(
    site: Site, outsider: Outsider
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        saved = backup(outsider, FIRST)
        await put(store, head, writes(a=b"2"))
        ours = await put(store, head := await store.take_over(ROOT), writes(a=b"3"))
    for name in (LAYOUT.witness, LAYOUT.deployment_marker):
        outsider.delete(name)
    outsider.put(FIRST, saved)
    async with opened(site.address()) as store:
        with pytest.raises(JournalDamaged, match="older copy"):
            await store.take_over(ROOT, ours)
    assert HEAD in outsider.get(FIRST)["metadata"]["annotations"]

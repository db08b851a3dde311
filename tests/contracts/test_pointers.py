"""Every pointer store: what take-over, load and commit promise within one process."""

from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from milepost_backends.contract import (
    Change,
    GroupLimits,
    Head,
    PointerStore,
    Refusal,
    StorageUnavailable,
    TakeOverLost,
)
from tests.contracts.journals import ROOT, done, put, records, refused, taken_over, writes
from tests.contracts.places import Place

pytestmark = pytest.mark.anyio

Pointers = Place[PointerStore]


async def test_the_first_take_over_makes_an_empty_journal(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        assert list(await store.journals()) == []
        head, found = await taken_over(store)
        assert (head.journal, head.term, found) == (ROOT, 1, {})
        assert head.revision > 0
        assert list(await store.journals()) == [ROOT]


async def test_a_take_over_raises_term_and_revision_by_one_and_draws_a_new_lineage(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
        lineages = {head.lineage}
        for _ in range(5):
            head = done(await store.commit(head, writes(a=b"1"), head.revision + 7))
            after = await store.take_over(ROOT)
            assert (after.term, after.revision) == (head.term + 1, head.revision + 1)
            lineages.add(after.lineage)
            head = after
        assert len(lineages) == 6


async def test_a_commit_moves_the_head_and_nothing_else_of_it(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
        after = done(await store.commit(head, writes(a=b"1"), head.revision + 3))
        assert after == replace(head, revision=head.revision + 3)


async def test_what_was_committed_is_there_after_take_over_and_after_reopening(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"2"))
        await put(store, head, writes(b=b"3", c=b"4"))
        assert (await taken_over(store))[1] == {"a": b"1", "b": b"3", "c": b"4"}
    async with pointers.opened() as store:
        head, found = await taken_over(store)
        assert found == {"a": b"1", "b": b"3", "c": b"4"}
        assert head.term == 3


async def test_a_group_writes_and_deletes_at_once(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"2"))
        await put(store, head, writes(a=None, b=b"3", never=None))
        assert (await taken_over(store))[1] == {"b": b"3"}


async def test_what_is_sent_to_be_written_is_counted(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
        before = store.bytes_sent
        await put(store, head, writes(a=os.urandom(5000).hex().encode()))
        assert store.bytes_sent - before >= 10_000


async def test_a_deleted_record_can_be_written_again(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        head = await put(store, head, writes(a=None))
        await put(store, head, writes(a=b"2"))
        assert (await taken_over(store))[1] == {"a": b"2"}


async def test_a_group_without_changes_moves_the_head(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
        after = done(await store.commit(head, [], head.revision + 1))
        assert refused(await store.commit(head, writes(a=b"1"), head.revision + 2)) is Refusal.HEAD_MOVED
        await put(store, after, writes(b=b"1"))
        assert (await taken_over(store))[1] == {"b": b"1"}


async def test_keys_and_values_come_back_as_they_were(pointers: Pointers) -> None:
    values = {
        "stores/flights/handles/a.b-c_d": b"",
        "stores/flights/handles/A.b-c_d": b"\x00\xff\x00",
        "stores/flights/handles/" + "n" * 200: os.urandom(3000),
        "sessions/0": b'{"schema": 1}',
        "sessions/00": "žluťoučký".encode(),
    }
    async with pointers.opened() as store:
        await put(store, await store.take_over(ROOT), [Change(key, value) for key, value in values.items()])
        assert (await taken_over(store))[1] == values


async def test_journals_are_apart(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        root = await put(store, await store.take_over(ROOT), writes(a=b"root"))
        flights = await put(store, await store.take_over("flights"), writes(a=b"flights", b=b"2"))
        assert (root.term, flights.term) == (1, 1)
        assert root.lineage != flights.lineage
        assert sorted(await store.journals()) == ["flights", ROOT]
        flights = await store.take_over("flights")
        assert await records(store, flights) == {"a": b"flights", "b": b"2"}
        await put(store, root, writes(a=None))
        assert (await taken_over(store))[1] == {}


async def test_a_commit_under_an_earlier_term_is_refused_for_good(pointers: Pointers) -> None:
    async with pointers.opened() as deposed, pointers.opened() as leader:
        old = await put(deposed, await deposed.take_over(ROOT), writes(a=b"1"))
        for _ in range(3):
            new = await leader.take_over(ROOT)
            assert refused(await deposed.commit(old, writes(a=b"late"), old.revision + 100)) is Refusal.HEAD_MOVED
            await put(leader, new, writes(b=b"2"))
            assert refused(await deposed.commit(old, writes(a=b"late"), old.revision + 200)) is Refusal.HEAD_MOVED
        assert (await taken_over(leader))[1] == {"a": b"1", "b": b"2"}


async def test_the_second_group_of_a_paused_leader_is_refused_too(pointers: Pointers) -> None:
    """The take-over leaves the very revision that the second group counts on: only the term tells them apart."""
    async with pointers.opened() as paused, pointers.opened() as leader:
        old = await put(paused, await paused.take_over(ROOT), writes(a=b"1"))
        first = old.revision + 1
        new = await leader.take_over(ROOT)
        assert new.revision == first
        assert refused(await paused.commit(old, writes(a=b"late"), first)) is Refusal.HEAD_MOVED
        second = replace(old, revision=first)
        assert refused(await paused.commit(second, writes(a=b"later"), first + 1)) is Refusal.HEAD_MOVED
        assert await records(leader, new) == {"a": b"1"}


async def test_a_commit_from_an_earlier_revision_of_the_same_term_is_refused(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        first = await store.take_over(ROOT)
        second = await put(store, first, writes(a=b"1"))
        assert refused(await store.commit(first, writes(a=b"2"), second.revision + 1)) is Refusal.HEAD_MOVED
        assert (await taken_over(store))[1] == {"a": b"1"}


async def test_a_commit_from_a_revision_that_never_was_is_refused(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
        ahead = replace(head, revision=head.revision + 1)
        assert refused(await store.commit(ahead, writes(a=b"1"), ahead.revision + 1)) is Refusal.HEAD_MOVED
        assert await records(store, head) == {}


async def test_a_commit_of_another_lineage_is_refused(pointers: Pointers) -> None:
    """As after a backup was restored: term and revision are there again, the lineage is not."""
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
        restored = replace(head, lineage="0" * len(head.lineage))
        assert refused(await store.commit(restored, writes(a=b"1"), head.revision + 1)) is Refusal.HEAD_MOVED
        assert await records(store, head) == {}


async def test_a_commit_to_an_absent_journal_is_refused(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        await store.take_over(ROOT)
        nowhere = Head("nowhere", 1, 1, "0" * 12)
        assert refused(await store.commit(nowhere, writes(a=b"1"), 2)) is Refusal.HEAD_MOVED
        assert list(await store.journals()) == [ROOT]


async def test_a_refused_group_leaves_no_part_of_itself(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        old = await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"2"))
        head = await store.take_over(ROOT)
        group = [Change(f"k{number}", b"late") for number in range(50)] + writes(a=None, b=b"late")
        assert refused(await store.commit(old, group, old.revision + 60)) is Refusal.HEAD_MOVED
        assert await records(store, head) == {"a": b"1", "b": b"2"}


async def test_a_group_larger_than_the_limits_is_refused_and_burns_nothing(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
        limits = store.limits
        large = writes(a=b"1", b=b"x" * (limits.value_bytes + 1))
        many = [
            Change(f"k{number}", b"x" * limits.value_bytes) for number in range(limits.bytes // limits.value_bytes + 1)
        ]
        for group in (large, many):
            assert refused(await store.commit(head, group, head.revision + 1)) is Refusal.TOO_LARGE
        await put(store, head, writes(c=b"3"))
        assert (await taken_over(store))[1] == {"c": b"3"}
        assert store.commit_delay == 0, "little was sent"


async def test_a_group_as_large_as_the_limits_lands(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        limits: GroupLimits = store.limits
        count = limits.bytes // limits.value_bytes
        group = [Change(f"k{number}", os.urandom(limits.value_bytes)) for number in range(count)]
        await put(store, await store.take_over(ROOT), group)
        assert (await taken_over(store))[1] == dict(group)


async def test_many_records_load_whole(pointers: Pointers) -> None:
    expected: dict[str, bytes | None] = {}
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
        per_group = min(store.limits.requests, 500)
        for group in range(5000 // per_group):
            changes = [Change(f"records/{group}/{number}", os.urandom(100)) for number in range(per_group)]
            head = await put(store, head, changes)
            expected.update((key, value) for key, value in changes)
        assert (await taken_over(store))[1] == expected


async def test_load_under_a_head_that_was_taken_over_is_lost(pointers: Pointers) -> None:
    async with pointers.opened() as deposed, pointers.opened() as leader:
        old = await put(deposed, await deposed.take_over(ROOT), writes(a=b"1"))
        await leader.take_over(ROOT)
        with pytest.raises(TakeOverLost):
            await records(deposed, old)
        with pytest.raises(TakeOverLost):
            await records(deposed, Head("nowhere", 1, 1, "0" * 12))


async def test_a_load_that_is_left_early_holds_nothing_up(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await put(store, await store.take_over(ROOT), [Change(f"k{number}", b"1") for number in range(100)])
        head = await store.take_over(ROOT)
        loading = store.load(head)
        await anext(loading)
        await put(store, head, writes(k1=b"2"))
        assert (await taken_over(store))[1]["k1"] == b"2"


async def test_confirm_tells_whether_the_term_still_stands(pointers: Pointers) -> None:
    async with pointers.opened() as store, pointers.opened() as other:
        first = await store.take_over(ROOT)
        assert await store.confirm(first)
        second = await put(store, first, writes(a=b"1"))
        assert await store.confirm(first)
        assert await store.confirm(second)
        third = await other.take_over(ROOT)
        assert not await store.confirm(second)
        assert await store.confirm(third)
        assert not await store.confirm(replace(third, lineage="0" * len(third.lineage)))
        assert not await store.confirm(Head("nowhere", 1, 1, "0" * 12))


async def test_open_and_close_can_be_repeated(pointers: Pointers) -> None:
    store = pointers.build()
    await store.open()
    await store.open()
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    await store.close()
    await store.close()
    await store.open()
    await put(store, head, writes(b=b"2"))
    assert (await taken_over(store))[1] == {"a": b"1", "b": b"2"}
    await store.close()


async def test_a_closed_store_refuses_commits_and_is_unavailable_for_the_rest(pointers: Pointers) -> None:
    async with pointers.opened() as store:
        head = await store.take_over(ROOT)
    refused(await store.commit(head, writes(a=b"1"), head.revision + 1))
    with pytest.raises(StorageUnavailable):
        await store.take_over(ROOT)
    with pytest.raises(StorageUnavailable):
        await records(store, head)
    with pytest.raises(StorageUnavailable):
        await store.confirm(head)
    with pytest.raises(StorageUnavailable):
        await store.journals()
    async with pointers.opened() as store:
        assert (await taken_over(store))[1] == {}

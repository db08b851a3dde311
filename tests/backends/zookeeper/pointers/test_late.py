"""A head that vanished, or a take-over of this process's own that was committed late, is no successor's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from milepost_backends.contract import Change, Head, StorageUnavailable, TakeOverLost
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.pointers.layout import encode_head
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from tests.backends.zookeeper.pointers.places import layout, opened
from tests.contracts.journals import ROOT, done, records, taken_over, writes

pytestmark = pytest.mark.anyio

DIGEST = "1-" + "a" * 32


async def led(store: ZooKeeperPointers) -> Head:
    """A journal with a record; its head."""
    head, _ = await taken_over(store)
    return done(await store.commit(head, writes(a=b"1"), head.revision + 1, DIGEST))


def lose_answers(store: ZooKeeperPointers, patch: pytest.MonkeyPatch, after: Callable[[], None] = lambda: None) -> None:
    """The next take-over is committed, and its answer is lost. No server can be made to lose just this one."""
    real = store._heads._transact

    async def committed_and_unanswered(*arguments: Any) -> Any:
        patch.setattr(store._heads, "_transact", real)
        assert await real(*arguments) is None
        after()
        raise StorageUnavailable("the answer was lost")

    patch.setattr(store._heads, "_transact", committed_and_unanswered)


async def test_a_head_that_vanished_after_a_take_over_of_our_own_landed_is_written_anew_from_memory(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = layout(zookeeper_address)

    def delete_head() -> None:
        [name] = [name for name in visitor.get_children(there.place) if name.startswith("head-")]
        visitor.delete(f"{there.place}/{name}")

    async with opened(zookeeper_address) as store:
        ours = await led(store)
        for _ in range(2):
            lose_answers(store, monkeypatch, delete_head)
            with pytest.raises(StorageUnavailable):
                await store.take_over(ROOT, ours)
        head = await store.take_over(ROOT, ours)
        assert (head.term, head.digest) == (ours.term + 3, DIGEST)
        assert await records(store, head) == {"a": b"1"}


async def test_a_take_over_of_our_own_that_lands_during_the_next_one_is_no_successors(
    zookeeper_address: ZooKeeperAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(zookeeper_address) as store:
        ours = await led(store)
        heads = store._heads
        find, transact = heads._found, heads._transact
        late: list[tuple[Any, ...]] = []

        async def on_its_way(*arguments: Any) -> Any:
            late.append(arguments)
            raise StorageUnavailable("no answer yet")

        async def found_and_landed(*arguments: Any) -> Any:
            found = await find(*arguments)
            if late:
                assert await transact(*late.pop()) is None
            return found

        for remembered in (ours, None):
            monkeypatch.setattr(heads, "_transact", on_its_way)
            with pytest.raises(StorageUnavailable):
                await store.take_over(ROOT, remembered)
            monkeypatch.setattr(heads, "_transact", transact)
            monkeypatch.setattr(heads, "_found", found_and_landed)
            head = await store.take_over(ROOT, remembered)
            assert head.digest == DIGEST
            monkeypatch.setattr(heads, "_found", find)
        assert head.term == ours.term + 4


async def test_a_head_that_vanishes_while_it_is_looked_for_is_written_anew_from_memory(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of names and the read."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        ours = await led(store)
        real = store._heads._stored

        async def vanished(where: Any, path: str) -> Any:
            if path == there.head(ours) and visitor.exists(path):
                visitor.delete(path)
            return await real(where, path)

        monkeypatch.setattr(store._heads, "_stored", vanished)
        head = await store.take_over(ROOT, ours)
        assert (head.term, head.digest) == (ours.term + 1, DIGEST)


@pytest.mark.parametrize("early", [True, False])
async def test_a_head_that_vanishes_while_the_journal_is_loaded_costs_no_memory(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, early: bool
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        ours = await led(store)
        head = await store.take_over(ROOT, ours)
        loading = store.load(head)
        if not early:
            assert await anext(loading) == Change("a", b"1")
        visitor.delete(there.head(head))
        with pytest.raises(StorageUnavailable, match=there.head(head)):
            await anext(loading)
        # The leader was not told of the term between, and knows of it all the same.
        head = await store.take_over(ROOT, ours)
        assert await records(store, head) == {"a": b"1"}


async def test_a_term_that_somebody_else_took_while_we_load_is_lost(zookeeper_address: ZooKeeperAddress) -> None:
    async with opened(zookeeper_address) as store, opened(zookeeper_address) as other:
        await led(store)
        head = await store.take_over(ROOT)
        loading = store.load(head)
        assert await anext(loading) == Change("a", b"1")
        await other.take_over(ROOT)
        with pytest.raises(TakeOverLost):
            await anext(loading)


async def test_what_a_later_term_wrote_is_not_written_over_from_memory(zookeeper_address: ZooKeeperAddress) -> None:
    """A machine that stood still as a whole, clock and all, wakes with a lease that seems to hold."""
    async with opened(zookeeper_address) as woken, opened(zookeeper_address) as successor:
        ours = await led(woken)
        head, _ = await taken_over(successor)
        done(await successor.commit(head, writes(a=b"2"), head.revision + 1, "1-" + "b" * 32))
        with pytest.raises(TakeOverLost):
            await woken.take_over(ROOT, ours)
        assert (await taken_over(successor))[1] == {"a": b"2"}


async def test_a_term_under_which_nothing_was_written_deposes_nobody(zookeeper_address: ZooKeeperAddress) -> None:
    """That of a leader that was paused in the middle of a take-over, and finds its lease over when it is done."""
    async with opened(zookeeper_address) as store, opened(zookeeper_address) as woken:
        ours = await led(store)
        await woken.take_over(ROOT)
        head = await store.take_over(ROOT, ours)
        assert (head.term, head.digest) == (ours.term + 2, DIGEST)


async def test_a_group_in_doubt_that_landed_before_such_a_term_deposes_nobody(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    """Its answer was lost, so memory has an older head, with another digest."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store, opened(zookeeper_address) as woken:
        ours = await led(store)
        committed = done(await store.commit(ours, writes(a=b"2"), ours.revision + 1, "1-" + "b" * 32))
        await woken.take_over(ROOT)
        head = await store.take_over(ROOT, ours)
        assert head.digest == committed.digest
        assert visitor.get(there.head(head))[0] == encode_head(head)
        assert await records(store, head) == {"a": b"2"}

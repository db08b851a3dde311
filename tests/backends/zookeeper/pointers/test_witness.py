"""What a foreign hand does to a head or its witness is refused by name; under a live leader it costs nothing."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from milepost_backends.contract import NO_RECORDS, JournalDamaged, Misconfigured, Refusal
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.pointers import store as zookeeper
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout, decode_head
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from tests.backends.zookeeper.pointers.hands import (
    AT_HEADS,
    AT_WITNESSES,
    Act,
    Hand,
    delete_all_witnesses,
    delete_witness,
    second_head,
)
from tests.backends.zookeeper.pointers.places import layout, opened
from tests.contracts.journals import ROOT, done, put, records, refused, taken_over, writes
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

DIGEST = "1-" + "a" * 32


async def worked(store: ZooKeeperPointers, visitor: KazooClient, there: ZnodeLayout) -> Hand:
    """A journal with two groups in it, and a hand that saw both."""
    head, _ = await taken_over(store)
    head = done(await store.commit(head, writes(a=b"1"), head.revision + 1, NO_RECORDS))
    earlier = visitor.get(there.head(head))[0]
    head = done(await store.commit(head, writes(a=b"2"), head.revision + 1, DIGEST))
    return Hand(visitor, there, head, earlier)


async def test_each_group_leaves_its_head_and_a_witness_of_it(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        for path in (hand.path, there.witness):
            assert decode_head(ROOT, visitor.get(path)[0]) == hand.head
        head, _ = await taken_over(store)
        assert head.digest == DIGEST
        for path in (there.head(head), there.witness):
            assert decode_head(ROOT, visitor.get(path)[0]) == head


@pytest.mark.parametrize("act", AT_HEADS)
async def test_without_a_leader_it_is_refused_by_name_until_it_is_put_right_or_accepted(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, act: Act, caplog: pytest.LogCaptureFixture
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
    act(hand)
    losses = set()
    for _ in range(2):
        async with opened(zookeeper_address) as store:
            with pytest.raises(JournalDamaged, match=there.place) as refusal:
                await store.take_over(ROOT)
            losses.add(refusal.value.loss)
    [loss] = losses
    assert loss is not None
    async with opened(zookeeper_address, accept_loss=["00000000", loss]) as store:
        head, _ = await taken_over(store)
        assert (head.term, head.revision) == (hand.head.term + 1, hand.head.revision + 1)
        assert f"accepted as the loss {loss}" in caplog.text
        await put(store, head, writes(b=b"1"))
    async with opened(zookeeper_address) as store:
        assert (await taken_over(store))[1]["b"] == b"1"


@pytest.mark.parametrize("act", AT_HEADS)
async def test_what_was_put_right_is_served_again(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, act: Act
) -> None:
    """From a copy of all that was there, as a backup is."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        whole = {path: visitor.get(path)[0] for path in (hand.path, there.record("a"))}
        act(hand)
        with pytest.raises(JournalDamaged):
            await store.take_over(ROOT)
        if visitor.exists(there.place):
            visitor.delete(there.place, recursive=True)
        for path, data in whole.items():
            visitor.create(path, data, makepath=True)
        head, found = await taken_over(store)
        assert (head.term, found) == (hand.head.term + 1, {"a": b"2"})


@pytest.mark.parametrize("act", AT_HEADS)
async def test_under_a_live_leader_it_is_written_anew_from_memory(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, act: Act, caplog: pytest.LogCaptureFixture
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        act(hand)
        end = await store.commit(hand.head, writes(b=b"1"), hand.head.revision + 1)
        assert refused(end) is Refusal.HEAD_MOVED
        ours = hand.head
        head = await store.take_over(ROOT, ours)
        assert (head.term, head.revision, head.digest) == (ours.term + 1, ours.revision + 1, DIGEST)
        assert "writes it anew from memory" in caplog.text
        await records(store, head)
        await put(store, head, writes(a=b"2", b=b"2"))
    async with opened(zookeeper_address) as store:
        assert (await taken_over(store))[1] == {"a": b"2", "b": b"2"}


async def test_what_a_foreign_hand_hides_is_no_reason_to_write_over_a_later_term(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store, opened(zookeeper_address) as other:
        ours = (await worked(store, visitor, there)).head
        later = await put(other, (await taken_over(other))[0], writes(a=b"3"))
        visitor.delete(there.head(later))
        with pytest.raises(JournalDamaged, match=there.place):
            await store.take_over(ROOT, ours)


async def test_groups_that_landed_are_not_written_over_by_an_older_head_of_ours(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    """Their answer was lost, so memory has an older head; the witness tells."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        committed = done(await store.commit(hand.head, writes(a=b"3"), hand.head.revision + 1, "1-" + "b" * 32))
        visitor.delete(hand.path)
        head = await store.take_over(ROOT, hand.head)
        assert (head.revision, head.digest) == (committed.revision + 1, committed.digest)


@pytest.mark.parametrize("act", AT_WITNESSES)
async def test_a_witness_is_written_anew_and_named_by_the_next_leader(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, act: Act, caplog: pytest.LogCaptureFixture
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        act(hand)
        head, found = await taken_over(store)
        assert (head.term, head.digest, found) == (hand.head.term + 1, DIGEST, {"a": b"2"})
        assert f"{there.witness}" in caplog.text
        assert "written anew" in caplog.text
        assert decode_head(ROOT, visitor.get(there.witness)[0]) == head


@pytest.mark.parametrize("act", AT_WITNESSES)
async def test_a_witness_is_written_anew_under_a_live_leader(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, act: Act
) -> None:
    """One group may be refused for it, for certain."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        act(hand)
        head = hand.head
        if act in (delete_witness, delete_all_witnesses):
            assert refused(await store.commit(head, writes(a=b"3"), head.revision + 1)) is Refusal.HEAD_MOVED
        head = await put(store, head, writes(a=b"3"))
        assert decode_head(ROOT, visitor.get(there.witness)[0]) == head


async def test_a_second_head_is_named_and_goes_where_the_witness_knows_the_first(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        second_head(hand)
        head, found = await taken_over(store)
        assert (head.term, head.digest, found) == (hand.head.term + 1, DIGEST, {"a": b"2"})
        assert f"{there.place}/head-000000000009-abc was made by another program" in caplog.text
        second_head(hand)
        delete_witness(hand)
        with pytest.raises(JournalDamaged, match=f"{there.place} has 2 heads"):
            await store.take_over(ROOT)
        assert (await store.take_over(ROOT, head)).term == head.term + 1


async def test_what_lies_below_a_head_does_not_keep_the_next_leader_from_it(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """ZooKeeper deletes no znode that has children."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        visitor.create(f"{hand.path}/below/deeper", b"?", makepath=True)
        visitor.create(f"{there.witness}/below", b"?")
        head, found = await taken_over(store)
        assert (head.term, found) == (hand.head.term + 1, {"a": b"2"})
        assert f"another program made {hand.path}/below/deeper below a head" in caplog.text
        await put(store, head, writes(a=b"3"))


async def test_a_second_head_that_may_not_be_read_goes_too_and_the_only_one_is_named(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    there = layout(zookeeper_address)
    others = [make_digest_acl("somebody", "else", all=True)]
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        second_head(hand)
        visitor.set_acls(f"{there.place}/head-000000000009-abc", others)
        head, found = await taken_over(store)
        assert (head.term, found) == (hand.head.term + 1, {"a": b"2"})
        visitor.set_acls(there.head(head), others)
        with pytest.raises(Misconfigured, match=f"cannot read {there.head(head)}"):
            await store.take_over(ROOT)
        assert (await store.take_over(ROOT, head)).term == head.term + 1


async def test_with_neither_head_nor_witness_no_loss_can_be_accepted(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    """Nobody knows how far the journal was: a revision might be given twice."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        hand = await worked(store, visitor, there)
        visitor.set(hand.path, b"")
        visitor.set(there.witness, b"")
        with pytest.raises(JournalDamaged, match=hand.path) as refusal:
            await store.take_over(ROOT)
        assert refusal.value.loss is None


async def test_where_everything_was_deleted_who_knows_of_it_makes_no_journal_anew(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was open before there was a journal, and nobody asked it for one since."""
    monkeypatch.setattr(zookeeper, "_LEARN_SECONDS", 0.05)
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as follower:
        async with opened(zookeeper_address) as store:
            hand = await worked(store, visitor, there)

            async def learnt() -> bool:
                return ROOT in follower._known

            await until(learnt)
            visitor.delete(zookeeper_address.root, recursive=True)
            with pytest.raises(JournalDamaged, match=f"{there.place} was deleted"):
                await follower.take_over(ROOT)
            assert visitor.exists(there.place) is None
            head = await store.take_over(ROOT, hand.head)
            assert (head.term, head.revision) == (hand.head.term + 1, hand.head.revision + 1)
        assert (await follower.take_over(ROOT)).term == head.term + 1

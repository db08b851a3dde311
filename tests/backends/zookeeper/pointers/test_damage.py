"""Znodes that hold garbage, or that somebody else made or deleted."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from milepost_backends.contract import Change, Misconfigured, Refusal
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.pointers.load import UNREADABLE
from tests.backends.zookeeper.pointers.places import layout, opened
from tests.contracts.journals import ROOT, put, refused, taken_over, writes

pytestmark = pytest.mark.anyio


async def test_a_record_that_holds_garbage_is_delivered_as_it_is(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"2"))
        visitor.set(there.record("a"), b"\xff\x00garbage")
        visitor.create(there.record("stores/žluťoučký kůň"), b"?", makepath=True)
        visitor.create(f"{there.records}/~00/b", b"the same name in another bucket", makepath=True)
        visitor.create(f"{there.records}/stores/empty", b"not a record")
        visitor.create(f"{there.record('b')}/below", b"not a record")
        head, found = await taken_over(store)
        assert found == {"a": b"\xff\x00garbage", "b": b"2", "stores/žluťoučký kůň": b"?"}
        assert f"{there.records}/~00/b is not in the bucket of its name" in caplog.text
        await put(store, head, writes(a=b"3"))
        assert (await taken_over(store))[1]["a"] == b"3"


async def test_a_record_with_something_below_it_can_be_removed(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """What lies there goes with it: ZooKeeper deletes no znode that has children."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"1"))
        for path in ("below", "below/deeper", "below/~00/a", "beside"):
            visitor.create(f"{there.record('a')}/{path}", b"?", makepath=True)
        head, found = await taken_over(store)
        assert found == {"a": b"1", "b": b"1"}
        assert f"the record {there.record('a')} has znodes below it" in caplog.text
        head = await put(store, head, [*writes(b=b"2"), Change("a", None)])
        await put(store, head, writes(a=b"2"))
        assert (await taken_over(store))[1] == {"a": b"2", "b": b"2"}


async def test_what_comes_to_lie_below_a_record_fails_one_removal_and_blocks_nothing(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1"))
        head, _ = await taken_over(store)
        visitor.create(f"{there.record('a')}/below", b"?")
        removal = [Change("a", None)]
        assert refused(await store.commit(head, removal, head.revision + 1)) is Refusal.HEAD_MOVED
        head, _ = await taken_over(store)
        await put(store, head, removal)
        assert (await taken_over(store))[1] == {}


async def test_a_record_that_may_not_be_read_is_delivered_as_garbage(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    there = layout(zookeeper_address)
    others = [make_digest_acl("somebody", "else", all=True)]
    async with opened(zookeeper_address) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"1", c=b"1"))
        visitor.set_acls(there.record("a"), others)
        visitor.create(f"{there.record('c')}/below", b"?", acl=others)
        head, found = await taken_over(store)
        assert found == {"a": UNREADABLE, "b": b"1", "c": b"1"}
        assert f"cannot read {there.record('a')}: ZooKeeper does not permit it" in caplog.text
        head = await put(store, head, writes(b=b"2"))
        await put(store, head, [Change("a", None), Change("c", None)])
        assert (await taken_over(store))[1] == {"b": b"2"}


async def test_a_directory_that_may_not_be_read_keeps_the_journal_from_being_loaded(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    """It may hold any number of records, which would be missed without a word."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        await put(store, await store.take_over(ROOT), [Change("sessions/a", b"1")])
        visitor.set_acls(f"{there.records}/sessions", [make_digest_acl("somebody", "else", all=True)])
        with pytest.raises(Misconfigured, match=f"read {there.records}/sessions"):
            await taken_over(store)


async def test_a_record_that_somebody_deleted_fails_one_group_and_blocks_nothing(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1"))
        head, _ = await taken_over(store)
        visitor.delete(there.record("a"))
        group = writes(b=b"2", a=b"2")
        assert refused(await store.commit(head, group, head.revision + 2)) is Refusal.HEAD_MOVED
        await put(store, head, group)
        assert (await taken_over(store))[1] == {"a": b"2", "b": b"2"}


async def test_all_records_that_somebody_deleted_fail_one_group_and_block_nothing(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        await put(store, await store.take_over(ROOT), [Change("stores/a", b"1"), Change("stores/b", b"1")])
        head, _ = await taken_over(store)
        visitor.delete(there.records, recursive=True)
        group = [Change("stores/a", b"2"), Change("stores/c", b"2")]
        assert refused(await store.commit(head, group, head.revision + 2)) is Refusal.HEAD_MOVED
        await put(store, head, group)
        assert (await taken_over(store))[1] == {"stores/a": b"2", "stores/c": b"2"}


async def test_a_record_that_somebody_made_fails_one_group_and_blocks_nothing(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        head, _ = await taken_over(store)
        visitor.create(there.record("sessions/a"), b"?", makepath=True)
        group = [Change("sessions/a", b"1")]
        assert refused(await store.commit(head, group, head.revision + 1)) is Refusal.HEAD_MOVED
        head, found = await taken_over(store)
        assert found == {"sessions/a": b"?"}
        await put(store, head, group)
        assert (await taken_over(store))[1] == {"sessions/a": b"1"}


async def test_a_group_larger_than_a_server_takes_is_refused_and_burns_nothing(
    zookeeper_address: ZooKeeperAddress,
) -> None:
    """Names count: with them a group of empty values may exceed ``jute.maxbuffer``."""
    async with opened(zookeeper_address) as store:
        head, _ = await taken_over(store)
        group = [Change(f"{number:04}" + "n" * 196, b"") for number in range(4000)]
        assert refused(await store.commit(head, group, head.revision + 1)) is Refusal.TOO_LARGE
        await put(store, head, group[:1000])
        assert len((await taken_over(store))[1]) == 1000

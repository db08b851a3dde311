"""A foreign hand at the znodes of a service: under its leader nothing is lost and nobody waits long for it; without a
leader nothing is served that does not prove itself, and it is said what to do.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import READ_ACL_UNSAFE, make_digest_acl

from milepost.errors import AlreadyExists, Corrupt
from milepost_backends.contract import StorageUnavailable
from milepost_backends.local.blobs import LocalBlobs
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.election.election import ZooKeeperElection
from milepost_backends.zookeeper.pointers.layout import HEAD_PREFIX
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from milepost_server.model.records import handle_key
from tests.backends.zookeeper.pointers.hands import AT_HEADS, AT_WITNESSES, Act, Hand, delete_records, second_head
from tests.backends.zookeeper.pointers.places import layout
from tests.contracts.places import Services
from tests.service.acting import STORE, actor
from tests.support.servers import zookeeper
from tests.support.servers.replicas import Backends, Build, Rig, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

NAMES = [f"h{number}" for number in range(5)]
DEADLINE = 60.0


@pytest.fixture
def address(tmp_path: Path, services: Services) -> ZooKeeperAddress:
    return ZooKeeperAddress.parse(zookeeper.fresh_url(tmp_path, services))


@pytest.fixture
def build(address: ZooKeeperAddress, tmp_path: Path) -> Build:
    def made(advertise: str) -> Backends:
        return Backends(
            ZooKeeperPointers(address), ZooKeeperElection(address, advertise), LocalBlobs(tmp_path / "blobs")
        )

    return made


def record(hand: Hand, name: str) -> str:
    return hand.layout.record(f"stores/{STORE}/handles/{name}")


def garble_records(hand: Hand) -> None:
    for name in NAMES:
        hand.visitor.set(record(hand, name), b"\xff\x00")


def flip_records(hand: Hand) -> None:
    for name in NAMES:
        hand.flip(record(hand, name), 600)


def delete_one_record(hand: Hand) -> None:
    hand.visitor.delete(record(hand, NAMES[0]))


def delete_the_store(hand: Hand) -> None:
    hand.visitor.delete(f"{hand.layout.records}/stores/{STORE}", recursive=True)


def make_what_is_to_come(hand: Hand) -> None:
    hand.visitor.create(record(hand, "another"), b"a stranger's", makepath=True)


AT_RECORDS: tuple[Act, ...] = (
    garble_records,
    flip_records,
    delete_one_record,
    delete_the_store,
)


def delete_all_heads(hand: Hand) -> None:
    for name in hand.visitor.get_children(hand.layout.place):
        if name.startswith(HEAD_PREFIX):
            hand.visitor.delete(f"{hand.layout.place}/{name}")


@asynccontextmanager
async def worked(build: Build, address: ZooKeeperAddress) -> AsyncIterator[tuple[Rig, Hand]]:
    """A service that leads, with acknowledged handles, and a hand at its znodes."""
    async with rig(build) as running:
        a = await actor(running, "a")
        for name in NAMES:
            await a.add(name, b"older")
        journal, there = running.replica.journal, layout(address)
        with zookeeper.visitor(address.hosts) as visitor:
            earlier = visitor.get(there.head(journal.head))[0]
            for entry in await a.listing():
                await a.replace(entry.name, entry.version, entry.name.encode())
            yield running, Hand(visitor, there, journal.head, earlier)


@pytest.mark.parametrize("act", [*AT_HEADS, *AT_WITNESSES, *AT_RECORDS, second_head])
async def test_under_a_leader_nothing_is_lost(build: Build, address: ZooKeeperAddress, act: Act) -> None:
    async with worked(build, address) as (running, hand):
        act(hand)
        a = await actor(running, "b")
        async with asyncio.timeout(DEADLINE):
            await a.lock_all()
            await a.add("another", b"another")
            for entry in await a.listing():
                await a.replace(entry.name, entry.version, entry.name.encode())
            states = {name: await a.read(name) for name in await a.names()}
        assert states == {name: name.encode() for name in [*NAMES, "another"]}
        await running.restart()
        b = await actor(running, "c")
        assert {name: await b.read(name) for name in await b.names()} == states


async def test_a_head_that_vanishes_after_a_take_over_whose_answer_was_lost_costs_no_memory(
    build: Build, address: ZooKeeperAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records go along with it, so that memory alone has them. No server can be made to lose just this answer."""
    async with worked(build, address) as (running, hand):
        journal, pointers = running.replica.journal, running.pointers.real
        assert isinstance(pointers, ZooKeeperPointers)
        heads = pointers._heads
        real, generation = heads._transact, journal.generation

        async def committed_and_unanswered(*arguments: Any) -> Any:
            monkeypatch.setattr(heads, "_transact", real)
            assert await real(*arguments) is None
            delete_all_heads(hand)
            delete_records(hand)
            raise StorageUnavailable("the answer was lost")

        monkeypatch.setattr(heads, "_transact", committed_and_unanswered)
        delete_one_record(hand)
        delete_all_heads(hand)
        a = await actor(running, "b")
        async with asyncio.timeout(DEADLINE):
            await a.add("another", b"another")
            assert {name: await a.read(name) for name in await a.names()} == {
                name: name.encode() for name in [*NAMES, "another"]
            }
        assert heads._transact == real
        assert journal.generation == generation


async def test_a_strangers_record_is_named_under_a_leader_and_can_be_removed(
    build: Build, address: ZooKeeperAddress
) -> None:
    async with worked(build, address) as (running, hand):
        make_what_is_to_come(hand)
        a = await actor(running, "b")
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(AlreadyExists, match="damaged"):
                await a.add("another", b"another")
            await a.remove("another")
            await a.add("another", b"another")
            assert await a.read("another") == b"another"
        await running.restart()
        assert await (await actor(running, "c")).names() == ["another", *NAMES]


@pytest.mark.parametrize("act", [*AT_HEADS, delete_one_record, delete_the_store, make_what_is_to_come])
async def test_without_a_leader_nothing_is_served_and_it_is_said_what_to_do(
    build: Build, address: ZooKeeperAddress, caplog: pytest.LogCaptureFixture, act: Act
) -> None:
    async with worked(build, address) as (running, hand):
        await running.stop()
        act(hand)
        async with rig(build, leading=False) as again:

            async def is_logged() -> bool:
                return re.search("JournalDamaged.*--accept-loss [0-9a-f]{8}", caplog.text) is not None

            await until(is_logged)
            assert not again.replica.leads


@pytest.mark.parametrize("act", [garble_records, flip_records])
async def test_records_that_do_not_prove_themselves_are_named_and_can_be_removed(
    build: Build, address: ZooKeeperAddress, caplog: pytest.LogCaptureFixture, act: Act
) -> None:
    async with worked(build, address) as (running, hand):
        await running.stop()
        act(hand)
        await running.restart()
        assert f"stores/{STORE}/handles/{NAMES[0]}" in caplog.text
        b = await actor(running, "b")
        for name in NAMES:
            with pytest.raises(Corrupt):
                await b.read(name)
        await b.remove(NAMES[0])
        await b.add(NAMES[0], b"new")
        assert await b.read(NAMES[0]) == b"new"
        await b.clear()
        await running.restart()
        assert running.replica.journal.damaged == []
        assert await (await actor(running, "c")).names() == []


async def test_a_record_that_nobody_may_write_any_more_stays_in_memory_and_all_others_are_put_right(
    build: Build, address: ZooKeeperAddress
) -> None:
    async with worked(build, address) as (running, hand):
        journal = running.replica.journal
        generation = journal.generation
        garble_records(hand)
        rights = [make_digest_acl("somebody", "else", all=True), *READ_ACL_UNSAFE]
        hand.visitor.set_acls(record(hand, NAMES[2]), rights)
        delete_one_record(hand)
        a = await actor(running, "b")
        await a.lock(NAMES[0])
        assert {name: await a.read(name) for name in await a.names()} == {name: name.encode() for name in NAMES}
        assert (journal.generation, journal.damaged) == (generation, [handle_key(STORE, NAMES[2])])
        await running.restart()
        b = await actor(running, "c")
        assert running.replica.journal.damaged == [handle_key(STORE, NAMES[2])]
        assert [await b.read(name) for name in NAMES if name != NAMES[2]] == [
            name.encode() for name in NAMES if name != NAMES[2]
        ]

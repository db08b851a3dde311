"""Elections in a real ZooKeeper: leases, lost sessions, strange entries, servers that are away or cut off."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from milepost_backends.contract import Leadership, StorageUnavailable
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.election.candidate import (
    CERTAIN,
    EXCHANGES,
    Entry,
    SessionCandidate,
    advertised_in,
    encode,
    in_order,
)
from milepost_backends.zookeeper.election.election import SessionLeadership, ZooKeeperElection
from testbed.zookeeper import ensemble, zookeeper
from tests.support.servers.zookeeper import expire
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.later]

ONE, OTHER = "http://127.0.0.1:7071", "http://127.0.0.1:7072"
DEADLINE = 60.0


@asynccontextmanager
async def opened(
    address: ZooKeeperAddress, advertise: str, timeout: float = DEADLINE
) -> AsyncIterator[ZooKeeperElection]:
    election = ZooKeeperElection(address, advertise, timeout=timeout)
    election._looking.timeout = DEADLINE
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await election.open()
                break
            except StorageUnavailable:  # members that have just found together drop a connection now and then
                await asyncio.sleep(0.1)
    try:
        yield election
    finally:
        await election.close()


async def won(election: ZooKeeperElection) -> SessionLeadership:
    async with asyncio.timeout(DEADLINE):
        leadership = await election.campaign()
    assert isinstance(leadership, SessionLeadership)
    return leadership


async def won_at_last(election: ZooKeeperElection) -> SessionLeadership:
    """While members find together again a campaign may end with an outage, and a candidate that stands again wins."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await won(election)
            except StorageUnavailable:
                await asyncio.sleep(0.1)


async def until_lost(leadership: Leadership) -> None:
    async with asyncio.timeout(DEADLINE):
        await leadership.wait_lost()
    assert leadership.remaining(time.monotonic()) <= 0


def entries(visitor: KazooClient, address: ZooKeeperAddress) -> list[Entry]:
    return in_order(visitor.get_children(f"{address.root}/election"))


async def test_the_lease_is_renewed_and_never_longer_than_is_certain(zookeeper_address: ZooKeeperAddress) -> None:
    address = ZooKeeperAddress(zookeeper_address.hosts, zookeeper_address.root, 2.0)
    async with opened(address, ONE) as one:
        leadership = await won(one)
        granted = leadership._candidate.connection.session_seconds
        assert granted == 2.0
        first = leadership.remaining(0.0)
        assert first <= time.monotonic() + CERTAIN * granted

        async def renewed() -> bool:
            assert leadership.remaining(time.monotonic()) <= CERTAIN * granted
            return leadership.remaining(0.0) > first + granted

        await until(renewed)


async def test_who_waited_in_the_queue_has_a_lease_as_soon_as_it_wins(zookeeper_address: ZooKeeperAddress) -> None:
    """Its session was made long ago, and kazoo by itself asks nothing for a third of a session's time."""
    address = ZooKeeperAddress(zookeeper_address.hosts, zookeeper_address.root, 4.0)
    async with opened(address, ONE) as one, opened(address, OTHER) as other:
        first = await won(one)
        waiting = asyncio.create_task(won(other))
        await asyncio.sleep(5.0)  # longer than a session: its making counts for nothing any more
        await first.resign()
        second = await waiting
        exchange = second._candidate.evidence._exchanges[-1]
        assert second.remaining(exchange[0]) > 4.0 / 4
        assert second.remaining(exchange[0]) <= CERTAIN * 4.0


def stand_still(seconds: float) -> None:
    """Hold up the whole loop, as if the process had no processor."""
    time.sleep(seconds)


async def test_the_lease_counts_for_less_when_nothing_was_asked_for_a_while(
    zookeeper_address: ZooKeeperAddress,
) -> None:
    """The process stands still. The exchange that follows may be heard of by one server alone, and that one may stop:
    what is certain is what was asked before, whatever kazoo's own thread sent meanwhile.
    """
    async with opened(zookeeper_address, ONE) as one:
        leadership = await won(one)
        evidence, timeout = leadership._candidate.evidence, leadership._candidate.connection.session_seconds
        assert timeout == 10.0

        async def is_logged() -> bool:
            return len(evidence._exchanges) > EXCHANGES

        await until(is_logged)
        await asyncio.sleep(0)
        stand_still(4.0)
        stood_still, before = time.monotonic(), leadership._until

        async def renewed() -> bool:
            return leadership._until > before

        newest = evidence._exchanges[-1][0]
        await until(renewed)
        assert evidence._exchanges[-2][0] == newest
        assert newest < stood_still - 4.0
        assert leadership._until <= newest + timeout


async def test_the_lease_counts_from_before_the_exchange(tmp_path: Path) -> None:
    """The server answers late: what was sent before that counts, not what was heard."""
    with zookeeper(tmp_path, tick_seconds=1.0) as server:
        async with opened(ZooKeeperAddress(server.address, session_seconds=10.0), ONE) as one:
            leadership = await won(one)
            server.pause()
            paused = time.monotonic()
            await asyncio.sleep(2.0)  # at least one exchange is sent, and not answered
            resumed = time.monotonic()
            server.resume()
            latest = leadership._until

            async def answered() -> bool:
                return leadership._until > latest

            await until(answered)
            assert leadership._until - CERTAIN * 10.0 < resumed
            assert leadership.remaining(paused) > 0


async def test_a_session_that_ends_is_leadership_lost_and_the_next_one_leads(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    async with opened(zookeeper_address, ONE) as one, opened(zookeeper_address, OTHER) as other:
        leadership = await won(one)
        waiting = asyncio.create_task(won(other))
        await expire(leadership._candidate.connection)
        await until_lost(leadership)
        assert (await waiting).remaining(time.monotonic()) > 0
        assert len(entries(visitor, zookeeper_address)) == 1
        assert await one.leader() == OTHER


async def test_an_entry_that_is_gone_is_leadership_lost(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    async with opened(zookeeper_address, ONE) as one:
        leadership = await won(one)
        visitor.delete(leadership._candidate.path)
        await until_lost(leadership)
        assert await one.leader() is None


async def test_an_entry_that_is_gone_ends_a_candidacy(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    async with opened(zookeeper_address, ONE) as one, opened(zookeeper_address, OTHER) as other:
        leader = await won(one)
        waiting = asyncio.create_task(other.campaign())

        async def stands() -> bool:
            return len(entries(visitor, zookeeper_address)) == 2

        await until(stands)
        visitor.delete(f"{zookeeper_address.root}/election/{entries(visitor, zookeeper_address)[1].name}")
        await leader.resign()
        with pytest.raises(StorageUnavailable, match="gone"):
            async with asyncio.timeout(DEADLINE):
                await waiting
        assert entries(visitor, zookeeper_address) == []


async def test_an_entry_that_is_gone_before_it_was_looked_for_ends_a_candidacy_too(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made, so its absence is no reason to make another one."""
    look = SessionCandidate._queue

    async def delete_and_look(candidacy: SessionCandidate) -> list[Entry]:
        for entry in entries(visitor, zookeeper_address):
            visitor.delete(f"{zookeeper_address.root}/election/{entry.name}")
        return await look(candidacy)

    async with opened(zookeeper_address, ONE) as one:
        monkeypatch.setattr(SessionCandidate, "_queue", delete_and_look)
        with pytest.raises(StorageUnavailable, match="gone"):
            async with asyncio.timeout(DEADLINE):
                await one.campaign()
        assert entries(visitor, zookeeper_address) == []


async def test_a_candidate_watches_the_one_before_it_alone(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    elections = [ZooKeeperElection(zookeeper_address, f"http://127.0.0.1:{port}") for port in range(7071, 7075)]
    for election in elections:
        await election.open()
    leader = await won(elections[0])
    waiting = []
    for number, election in enumerate(elections[1:], 2):
        waiting.append(asyncio.create_task(won(election)))

        async def stands(expected: int = number) -> bool:
            return len(entries(visitor, zookeeper_address)) == expected

        await until(stands)
    waiting[1].cancel()  # the second of those that wait: the third watches the first then
    await asyncio.wait([waiting[1]])
    await leader.resign()
    second = await waiting[0]
    done, _ = await asyncio.wait([waiting[2]], timeout=0.5)
    assert not done
    await second.resign()
    await waiting[2]
    for election in elections:
        await election.close()
    assert entries(visitor, zookeeper_address) == []


async def test_what_is_not_an_entry_does_not_count(zookeeper_address: ZooKeeperAddress, visitor: KazooClient) -> None:
    place = f"{zookeeper_address.root}/election"
    async with opened(zookeeper_address, ONE) as one:
        for name in ("0000000000", "lock-0000000000", "0" * 32 + "-000000000", "žluťoučký", "0" * 31 + "g-0000000000"):
            visitor.create(f"{place}/{name}", b"?")
        assert await one.leader() is None
        await won(one)
        assert await one.leader() == ONE


async def test_an_entry_that_somebody_altered_names_nobody_and_is_written_anew(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    address = ZooKeeperAddress(zookeeper_address.hosts, zookeeper_address.root, 4.0)
    async with opened(address, ONE) as one:
        leadership = await won(one)
        path = leadership._candidate.path

        async def named() -> bool:
            return await one.leader() == ONE

        for garbage in (b"", encode(ONE)[:-1], encode(ONE).replace(b"7071", b"7073")):
            visitor.set(path, garbage)
            assert await one.leader() in (None, ONE)
            await until(named)
            assert visitor.get(path)[0] == encode(ONE)
        assert not leadership._lost.is_set()
        assert f"another program altered our entry in the election, {path}" in caplog.text


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\xff", b"[]", b"[" * 100_000, b'{"schema": 1, "advertise": 7}', b'{"schema": 1, "advertise": "http://a"}'],
)
def test_what_does_not_prove_itself_advertises_nothing(garbage: bytes) -> None:
    assert advertised_in(garbage) is None


def test_no_bit_of_an_entry_can_be_flipped_unnoticed() -> None:
    entry = encode(ONE)
    for bit in range(8 * len(entry)):
        altered = bytearray(entry)
        altered[bit // 8] ^= 1 << bit % 8
        assert advertised_in(bytes(altered)) is None


async def test_an_entry_whose_making_was_not_confirmed_is_found_again(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks as the entry is made: the session comes back, and finds it there or makes it again."""
    create, broken = SessionCandidate._create, 0

    def create_and_break(candidacy: SessionCandidate, client: Any) -> Any:
        nonlocal broken
        promise = create(candidacy, client)
        if broken < 5:
            broken += 1
            client._connection._socket.shutdown(socket.SHUT_RDWR)
        return promise

    monkeypatch.setattr(SessionCandidate, "_create", create_and_break)
    async with opened(zookeeper_address, ONE) as one:
        leadership = await won(one)
        assert 1 <= broken <= 5
        assert len({entry.candidacy for entry in entries(visitor, zookeeper_address)}) == 1
        await leadership.resign()
        assert entries(visitor, zookeeper_address) == []


async def test_a_server_that_is_cut_off_answers_reads_but_renews_no_lease(tmp_path: Path) -> None:
    """This is why an exchange is a transaction: the two others, paused here, might have elected another by now."""
    with ensemble(tmp_path, tick_seconds=2.0) as servers:
        follower = next(member for member in servers.members if member.mode() == "follower")
        async with opened(ZooKeeperAddress(follower.address, session_seconds=4.0), ONE) as one:
            leadership = await won(one)
            path = leadership._candidate.path
            for member in servers.members:
                if member is not follower:
                    member.pause()
            paused = time.monotonic()
            reads = 0
            while time.monotonic() < paused + CERTAIN * 4.0 + 0.2:
                found = await one._looking.ask("look", lambda client: client.exists_async(path))
                reads += found is not None
                await asyncio.sleep(0.05)
            assert leadership.remaining(time.monotonic()) <= 0
            assert reads > 0
            for member in servers.members:
                member.resume()


async def test_an_ensemble_that_lost_its_leader_goes_on(tmp_path: Path) -> None:
    with ensemble(tmp_path, tick_seconds=0.5) as servers:
        address = ZooKeeperAddress(servers.hosts, session_seconds=10.0)
        async with opened(address, ONE) as one, opened(address, OTHER) as other:
            leadership = await won_at_last(one)
            waiting = asyncio.create_task(won_at_last(other))
            leader = await asyncio.to_thread(servers.leader)
            leader.kill()
            before = leadership.remaining(0.0)

            async def renewed() -> bool:
                return leadership.remaining(0.0) > before + 1.0 or leadership._lost.is_set()

            await until(renewed)
            await leadership.resign()
            await asyncio.wait([waiting], timeout=DEADLINE)
            assert waiting.done()
            await waiting.result().resign()


def test_entries_are_in_the_order_they_came() -> None:
    late, early = Entry(10, "a" * 32), Entry(9, "b" * 32)
    assert in_order([late.name, "other", early.name]) == [early, late]
    assert early.name == "b" * 32 + "-0000000009"


def test_what_an_entry_says_comes_back() -> None:
    assert advertised_in(encode(ONE)) == ONE

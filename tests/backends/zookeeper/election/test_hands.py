"""A foreign hand at the entries of an election: a leader that can prove its entry no more leaves, and nobody waits for
what will never go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, Id, Permissions, make_digest_acl

from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.election.candidate import Entry, encode
from milepost_backends.zookeeper.election.election import SessionLeadership
from milepost_backends.zookeeper.errors import OtherError
from tests.backends.zookeeper.election.test_election import ONE, OTHER, entries, opened, until_lost, won
from tests.contracts.test_elections import until_leader_is
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

Act = Callable[[KazooClient, str], None]


def may_not_be_read(visitor: KazooClient, path: str) -> None:
    visitor.set_acls(path, [make_digest_acl("somebody", "else", all=True)])


def altered_and_may_not_be_written(visitor: KazooClient, path: str) -> None:
    visitor.set(path, b"?")
    visitor.set_acls(path, [ACL(Permissions.READ, Id("world", "anyone"))])


def replaced_by_a_copy(visitor: KazooClient, path: str) -> None:
    """As restoring from a dump does: in one breath, to the byte, and with the same version."""
    request = visitor.transaction()
    request.delete(path)
    request.create(path, encode(ONE))
    request.commit()


def replaced_by_an_altered_copy(visitor: KazooClient, path: str) -> None:
    replaced_by_a_copy(visitor, path)
    visitor.set(path, b"?")


@pytest.mark.parametrize(
    "act", [may_not_be_read, altered_and_may_not_be_written, replaced_by_a_copy, replaced_by_an_altered_copy]
)
async def test_a_leader_whose_entry_can_be_proven_no_more_leaves_and_another_one_leads(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, act: Act
) -> None:
    async with opened(zookeeper_address, ONE) as one, opened(zookeeper_address, OTHER) as other:
        leadership = await won(one)
        act(visitor, leadership._candidate.path)
        await until_lost(leadership)
        await leadership.resign()
        await won(other)
        await until_leader_is(one, OTHER)
        assert len(entries(visitor, zookeeper_address)) == 1


async def test_an_entry_that_belongs_to_no_session_holds_nobody_up_and_names_nobody(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as comes with a restore of all znodes from a dump."""
    first, second = (f"{zookeeper_address.root}/election/{Entry(0, name * 32).name}" for name in "ab")
    async with opened(zookeeper_address, ONE) as one:
        visitor.create(first, encode(OTHER))
        leadership = await won(one)
        assert f"{first} belongs to no session" in caplog.text
        visitor.create(second, encode(OTHER))
        assert await one.leader() == ONE
        assert leadership.remaining(time.monotonic()) > 0


async def test_answers_that_tell_nothing_renew_no_lease_and_end_it_once_it_has_run_out(
    zookeeper_address: ZooKeeperAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of a kind that nobody foresaw, which no real server can be made to give."""
    address = ZooKeeperAddress(zookeeper_address.hosts, zookeeper_address.root, 2.0)
    async with opened(address, ONE) as one:
        leadership = await won(one)
        connection = leadership._candidate.connection
        ask, last = connection.ask, 0.0

        async def says_nothing(doing: str, *arguments: Any) -> Any:
            return [OtherError()] if doing == "renew the lease" else await ask(doing, *arguments)

        monkeypatch.setattr(connection, "ask", says_nothing)
        last = leadership._until
        while leadership.remaining(time.monotonic()) > 0:
            assert not leadership._lost.is_set()
            assert leadership._until <= last + 0.25 * 2.0  # one exchange may have been on its way
            await asyncio.sleep(0.01)
        await until_lost(leadership)


async def test_an_answer_that_is_lost_costs_nothing_before_the_lease_runs_out(
    zookeeper_address: ZooKeeperAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(zookeeper_address, ONE) as one:
        leadership: SessionLeadership = await won(one)
        connection = leadership._candidate.connection
        ask, lost = connection.ask, 0

        async def loses_three(doing: str, *arguments: Any) -> Any:
            nonlocal lost
            if doing == "renew the lease" and lost < 3:
                lost += 1
                return [OtherError()]
            return await ask(doing, *arguments)

        monkeypatch.setattr(connection, "ask", loses_three)
        before = leadership._until

        async def renewed() -> bool:
            return leadership._until > before and lost == 3

        await until(renewed)
        assert not leadership._lost.is_set()

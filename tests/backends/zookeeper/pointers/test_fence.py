"""The fence on a real ZooKeeper: what would get past a bare ``dataVersion``, and does not get past this one."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError
from msgspec.structs import replace

from milepost_backends.contract import Commit, Head, Refusal
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.client import ZooKeeperClient
from milepost_backends.zookeeper.errors import first_failure
from milepost_backends.zookeeper.pointers.group import Znodes, build, end_of
from tests.backends.zookeeper.pointers.places import layout, opened
from tests.contracts.journals import ROOT, done, put, records, refused, taken_over, writes

pytestmark = pytest.mark.anyio


def bare_group(client: KazooClient, head: str, record: str, version: int) -> list[Any]:
    """A group whose only fence is the version of one head that all terms share."""
    request = client.transaction()
    request.set_data(head, b"", version)
    request.create(record, b"late")
    results: list[Any] = request.commit()
    return results


def test_the_second_group_of_a_paused_leader_gets_past_a_bare_version(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    """The paused leader had two groups on their way, conditional on 0 and on what the first would leave, 1.

    The take-over leaves 1 as well.
    """
    root = zookeeper_address.root
    head = visitor.create(f"{root}/head", b"term 1", makepath=True)
    assert visitor.get(head)[1].version == 0
    visitor.set(head, b"term 2", version=0)
    failure = first_failure(bare_group(visitor, head, f"{root}/first", 0))
    assert failure is not None
    assert isinstance(failure[1], BadVersionError)
    assert first_failure(bare_group(visitor, head, f"{root}/second", 1)) is None
    assert visitor.get(f"{root}/second")[0] == b"late"


async def test_the_second_group_of_a_paused_leader_does_not_get_past_the_head_of_its_term(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    """The very requests that the paused leader's store sends, with the versions it counts on."""
    there = layout(zookeeper_address)

    def late(after: Head, version: int) -> Commit:
        group = build(there, writes(late=b"1"), Znodes([there.records, there.witness], complete=True), after)
        at = there.head(after)
        answer = ZooKeeperClient.send(visitor, group.request(at, version, None)).get()
        return end_of(answer, after, group.paths(at))

    async with opened(zookeeper_address) as paused, opened(zookeeper_address) as leader:
        old = await paused.take_over(ROOT)
        new = await leader.take_over(ROOT)
        assert visitor.get(there.head(new))[1].version == 0
        for number in range(3):
            assert refused(late(replace(old, revision=old.revision + 1 + number), number)) is Refusal.HEAD_MOVED
            new = await put(leader, new, writes(mine=b"%d" % number))
            assert visitor.get(there.head(new))[1].version == number + 1
        assert (await taken_over(leader))[1] == {"mine": b"2"}


async def test_while_the_leader_leads_the_same_requests_land(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    """So that the test above refuses them for the reason it says."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as store:
        head = await store.take_over(ROOT)
        after = replace(head, revision=head.revision + 1)
        group = build(there, writes(late=b"1"), Znodes([there.records, there.witness], complete=True), after)
        at = there.head(after)
        answer = ZooKeeperClient.send(visitor, group.request(at, 0, None)).get()
        assert done(end_of(answer, after, group.paths(at))) == after
        assert refused(await store.commit(head, writes(mine=b"1"), head.revision + 1)) is Refusal.HEAD_MOVED
        assert (await taken_over(store))[1] == {"late": b"1"}


async def test_groups_of_an_older_leader_that_land_during_a_take_over_are_part_of_it(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    """Between reading the head and replacing it: the take-over reads again."""
    there = layout(zookeeper_address)
    async with opened(zookeeper_address) as older, opened(zookeeper_address) as leader:
        head = await older.take_over(ROOT)
        real, committed = leader._heads._stored, 0

        async def stored_then_a_group_lands(*arguments: Any) -> Any:
            nonlocal head, committed
            found = await real(*arguments)
            if committed < 3:
                committed += 1
                head = await put(older, head, writes(**{f"k{committed}": b"1"}))
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leader._heads, "_stored", stored_then_a_group_lands)
            new = await leader.take_over(ROOT)
        assert (new.term, new.revision) == (head.term + 1, head.revision + 1)
        assert await records(leader, new) == {"k1": b"1", "k2": b"1", "k3": b"1"}
        assert visitor.get(there.head(new))[1].version == 0

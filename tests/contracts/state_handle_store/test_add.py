"""addAndLock."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from milepost.errors import AlreadyExists, IdempotencyMismatch, OutcomeUnknown, Problem, Unavailable
from milepost.wire import Code, Outcome
from milepost_backends.contract import StorageUnavailable
from tests.contracts.state_handle_store.frontends import definite_errors
from tests.contracts.state_handle_store.frontends.deployments import Site
from tests.contracts.state_handle_store.frontends.services import FragileService, Service, fragile_service
from tests.support.network.faults import Disturbance, lose_answer, lose_request

pytestmark = pytest.mark.anyio


async def test_added_once_it_is_readable_durable_and_locked_by_its_session_alone(fragile: FragileService) -> None:
    """ZooKeeper 1."""
    a = await fragile.actor("a")
    added = await a.add("pointer", b"state")
    assert added.locks == (a.session,)
    await fragile.restart()
    assert await a.listing() == [added]
    assert await a.exists("pointer") == added.version
    assert await a.read("pointer") == b"state"
    assert await a.locks() == ["pointer"]


async def test_an_entry_marked_for_deletion_makes_room(fragile: FragileService) -> None:
    """ZooKeeper 2."""
    a = await fragile.actor("a")
    await a.add("pointer", b"old")
    await fragile.mark(a, "pointer")
    added = await a.add("pointer", b"new")
    assert await a.read("pointer") == b"new"
    assert await a.listing() == [added]
    assert fragile.discarded == fragile.put[:1]
    assert await fragile.blobs() == [b"new"]


async def test_what_is_in_the_way_of_an_add_cannot_be_discarded_so_nothing_is_added(fragile: FragileService) -> None:
    """ZooKeeper 2, with the blob store failing again."""
    a = await fragile.actor("a")
    await a.add("pointer", b"old")
    await fragile.mark(a, "pointer")
    fragile.rig.blobs.deletes.once(StorageUnavailable("by the test"))
    with pytest.raises(Unavailable) as caught:
        await a.add("pointer", b"new")
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert await a.exists("pointer") is None
    assert await fragile.blobs() == [b"old"]


@pytest.mark.parametrize("applied", [False, True], ids=["not-applied", "applied"])
async def test_an_unknown_failure_is_reported_as_unknown_and_keeps_the_blob(
    fragile: FragileService, applied: bool
) -> None:
    """ZooKeeper 6, for either way it may have gone; once that is known, the blob goes the same way."""
    a = await fragile.actor("a")
    async with fragile.in_doubt(lose_answer() if applied else lose_request()):
        with pytest.raises(OutcomeUnknown) as caught:
            await a.add("pointer", b"state")
        assert caught.value.outcome is Outcome.UNKNOWN
        assert await fragile.blobs() == [b"state"]
        assert await a.exists("pointer") is None
    await fragile.rig.emptied_trash()
    assert await fragile.blobs() == ([b"state"] if applied else [])
    assert await a.names() == (["pointer"] if applied else [])


async def test_a_second_add_is_refused_and_leaves_no_blob_behind(service: Service) -> None:
    """ZooKeeper 7."""
    a, b = await service.actor("a"), await service.actor("b")
    first = await a.add("pointer", b"first")
    for actor in (a, b):
        with pytest.raises(AlreadyExists) as caught:
            await actor.add("pointer", b"second")
        assert caught.value.outcome is Outcome.NOT_APPLIED
    assert await service.blobs() == [b"first"]
    assert await b.read("pointer") == b"first"
    assert await a.exists("pointer") == first.version
    assert await b.locks() == []


async def test_an_existing_key_is_refused_and_only_the_new_blob_discarded(fragile: FragileService) -> None:
    """Kubernetes 1."""
    a = await fragile.actor("a")
    await a.add("pointer", b"first")
    with pytest.raises(AlreadyExists):
        await a.add("pointer", b"second")
    assert fragile.discarded == fragile.put[1:]
    assert await fragile.blobs() == [b"first"]


@pytest.mark.parametrize("lost", [lose_answer(), lose_request()], ids=["answer-lost", "request-lost"])
async def test_a_commit_in_doubt_is_settled_within_the_request(fragile: FragileService, lost: Disturbance) -> None:
    """ZooKeeper 8."""
    a = await fragile.actor("a")
    fragile.rig.pointers.disturb(lost)
    added = await a.add("pointer", b"state")
    assert await a.exists("pointer") == added.version
    assert await a.locks() == ["pointer"]
    assert fragile.discarded == []
    assert await fragile.blobs() == [b"state"]


@pytest.mark.parametrize("applied", [False, True], ids=["not-applied", "applied"])
async def test_a_retry_after_a_lost_answer_succeeds_with_one_blob(fragile: FragileService, applied: bool) -> None:
    """Kubernetes 2."""
    a = await fragile.actor("a")
    async with fragile.in_doubt(lose_answer() if applied else lose_request()):
        with pytest.raises(OutcomeUnknown):
            await a.under(key="k").add("pointer", b"state")
    added = await a.under(key="k", attempt=2).add("pointer", b"state")
    assert added.replayed is applied
    assert await a.exists("pointer") == added.version
    assert await a.read("pointer") == b"state"
    assert await a.under(key="k", attempt=3).add("pointer", b"state") == replace(added, replayed=True)
    await fragile.rig.emptied_trash()
    assert await fragile.blobs() == [b"state"]


async def test_a_retry_with_other_content_is_refused(fragile: FragileService) -> None:
    """Kubernetes 2, with other content."""
    a = await fragile.actor("a")
    added = await a.under(key="k").add("pointer", b"state")
    with pytest.raises(IdempotencyMismatch):
        await a.under(key="k", attempt=2).add("pointer", b"other")
    assert await a.exists("pointer") == added.version
    assert await fragile.blobs() == [b"state"]


async def test_an_add_that_fails_for_certain_discards_its_blob(fragile: FragileService) -> None:
    """ZooKeeper 9-16, one kind of failure after the other."""
    a = await fragile.actor("a")
    for number, error in enumerate(definite_errors.OF_ADD):
        name, before = f"pointer-{number}", await fragile.blobs()
        put, discarded = len(fragile.put), len(fragile.discarded)
        async with definite_errors.met(error, fragile):
            with pytest.raises(Problem) as caught:
                await a.add(name, b"state")
            assert (caught.value.code, caught.value.outcome) == (error.code, Outcome.NOT_APPLIED)
            assert len(fragile.put) > put
            await fragile.discards(fragile.put[put:], discarded)
            assert await fragile.blobs() == before
        assert await a.exists(name) is None
        assert (await a.add(name, b"again")).locks == (a.session,)


async def test_an_add_to_a_journal_that_is_gone_discards_its_blob(fragile: FragileService) -> None:
    """Kubernetes 3; but where a leader can make the journal anew from memory, it does, and nothing was lost."""
    a = await fragile.actor("a")
    if fragile.site.deployment.coordination.brings_back:
        await a.add("older", b"state")
        with fragile.site.vanished():
            await a.add("pointer", b"state")
        await fragile.restart()
        assert await a.names() == ["older", "pointer"]
        assert await a.read("older") == await a.read("pointer") == b"state"
        return
    with fragile.site.vanished():
        with pytest.raises(Problem) as caught:
            await a.add("pointer", b"state")
        assert (caught.value.code, caught.value.outcome) == (Code.STORAGE_UNAVAILABLE, Outcome.NOT_APPLIED)
        assert fragile.discarded == fragile.put
        assert await fragile.blobs() == []


async def test_of_three_contenders_only_the_leader_stores_its_value(site: Site, by_rest: bool) -> None:
    """Kubernetes 9: who does not lead answers with an error; by REST it sends its caller on, who is then too late."""
    async with (
        fragile_service(site, rest=by_rest) as leader,
        fragile_service(site, rest=by_rest, leading=False) as second,
        fragile_service(site, rest=by_rest, leading=False) as third,
    ):
        a = await leader.actor("a")
        others = [replace(a, frontend=follower.frontend) for follower in (second, third)]
        added = await a.add("pointer", b"0")
        ends = await asyncio.gather(
            *(other.add("pointer", b"%d" % number) for number, other in enumerate(others, 1)), return_exceptions=True
        )
        expected = Code.ALREADY_EXISTS if by_rest else Code.NO_LEADER
        assert [end.code for end in ends if isinstance(end, Problem)] == [expected, expected]
        assert await a.listing() == [added]
        assert await leader.blobs() == [b"0"]


async def test_of_three_contenders_at_once_one_value_is_stored(site: Site, by_rest: bool) -> None:
    """Kubernetes 9, all at the leader at once."""
    async with fragile_service(site, rest=by_rest) as leader:
        actors = [await leader.actor(name) for name in "abc"]
        ends = await asyncio.gather(
            *(actor.add("pointer", b"%d" % number) for number, actor in enumerate(actors)), return_exceptions=True
        )
        winners = [number for number, end in enumerate(ends) if not isinstance(end, BaseException)]
        assert [end.code for end in ends if isinstance(end, Problem)] == [Code.ALREADY_EXISTS] * 2
        assert len(winners) == 1
        assert await leader.blobs() == [b"%d" % winners[0]]
        assert await actors[0].read("pointer") == b"%d" % winners[0]

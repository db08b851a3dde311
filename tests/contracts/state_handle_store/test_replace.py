"""replace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.errors import NotExist, NotLocked, OutcomeUnknown, Problem, VersionMismatch
from milepost.wire import Code, Outcome
from milepost_backends.contract import StorageUnavailable
from tests.contracts.state_handle_store.frontends import definite_errors
from tests.contracts.state_handle_store.frontends.deployments import Site
from tests.contracts.state_handle_store.frontends.services import FragileService, Service, fragile_service
from tests.support.network.faults import lose_answer, lose_request
from tests.support.servers.replicas import PROMPT

pytestmark = pytest.mark.anyio

NEVER = "000000000000.1"


async def test_replaced_at_the_current_version_it_has_the_new_value(service: Service) -> None:
    """ZooKeeper 17."""
    a = await service.actor("a")
    old = await a.add("pointer", b"old")
    new = await a.replace("pointer", old.version, b"new")
    assert new.version != old.version
    assert await a.exists("pointer") == new.version
    assert await a.read("pointer") == b"new"
    assert await a.locks() == ["pointer"]
    await service.blobs_become(b"new")


async def test_a_released_entry_cannot_be_replaced(service: Service) -> None:
    """ZooKeeper 18."""
    a = await service.actor("a")
    old = await a.add("pointer", b"old")
    await a.release("pointer")
    with pytest.raises(NotLocked):
        await a.replace("pointer", old.version, b"new")
    assert await a.exists("pointer") == old.version
    assert await service.blobs() == [b"old"]


async def test_what_does_not_exist_cannot_be_replaced(service: Service) -> None:
    """ZooKeeper 19."""
    a = await service.actor("a")
    with pytest.raises(NotExist, match="pointer"):
        await a.replace("pointer", NEVER, b"new")
    assert await a.names() == []
    assert await service.blobs() == []


@pytest.mark.parametrize("applied", [False, True], ids=["not-applied", "applied"])
async def test_an_unknown_failure_discards_neither_blob_and_serves_the_old_value(
    fragile: FragileService, applied: bool
) -> None:
    """ZooKeeper 20, for either way it may have gone; once that is known, one of the two goes."""
    a = await fragile.actor("a")
    old = await a.add("pointer", b"old")
    async with fragile.in_doubt(lose_answer() if applied else lose_request()):
        with pytest.raises(OutcomeUnknown) as caught:
            await a.replace("pointer", old.version, b"new")
        assert caught.value.outcome is Outcome.UNKNOWN
        assert fragile.discarded == []
        assert await fragile.blobs() == [b"new", b"old"]
        assert await a.exists("pointer") == old.version
        assert await a.read("pointer") == b"old"
    await fragile.rig.emptied_trash()
    assert await a.read("pointer") == (b"new" if applied else b"old")
    assert await fragile.blobs() == [b"new" if applied else b"old"]


async def test_a_replace_that_fails_for_certain_discards_the_new_blob(fragile: FragileService) -> None:
    """ZooKeeper 21-29, one kind of failure after the other."""
    a = await fragile.actor("a")
    version = (await a.add("pointer", b"0")).version
    for number, error in enumerate(definite_errors.OF_REPLACE):
        old, put, discarded = b"%d" % number, len(fragile.put), len(fragile.discarded)
        async with definite_errors.met(error, fragile):
            with pytest.raises(Problem) as caught:
                await a.replace("pointer", version, b"new")
            assert (caught.value.code, caught.value.outcome) == (error.code, Outcome.NOT_APPLIED)
            assert len(fragile.put) > put
            await fragile.discards(fragile.put[put:], discarded)
            assert await fragile.blobs() == [old]
        assert await a.exists("pointer") == version
        assert await a.read("pointer") == old
        newer = b"%d" % (number + 1)
        version = (await a.replace("pointer", version, newer)).version
        await fragile.rig.emptied_trash()  # the old blob's discard is over, and counted
        assert await fragile.blobs() == [newer]


async def test_an_entry_marked_for_deletion_is_not_replaced_and_both_blobs_go(fragile: FragileService) -> None:
    """Kubernetes 4: the new one at once, the old one when maintenance has finished the removal."""
    a = await fragile.actor("a")
    old = await a.add("pointer", b"old")
    await fragile.mark(a, "pointer")
    with pytest.raises(NotExist):
        await a.replace("pointer", old.version, b"new")
    assert fragile.discarded == fragile.put[1:]
    await fragile.restart(replace(PROMPT, maintenance_interval_seconds=0.02))
    await fragile.blobs_become()
    assert await a.exists("pointer") is None


async def test_a_discard_that_fails_is_reported_beside_what_it_comes_from(fragile: FragileService) -> None:
    """Kubernetes 4, with the blob store failing again."""
    a = await fragile.actor("a")
    old = await a.add("pointer", b"old")
    await fragile.mark(a, "pointer")
    fragile.rig.blobs.deletes.once(StorageUnavailable("the blobs are away"))
    with pytest.raises(NotExist) as caught:
        await a.replace("pointer", old.version, b"new")
    assert "the blobs are away" in caught.value.detail
    assert await fragile.blobs() == [b"new", b"old"]
    fragile.rig.clock.advance(60.0)
    await fragile.blobs_become(b"old")
    assert (await a.remove("pointer")).removed
    assert await fragile.blobs() == []


async def test_a_deposed_leader_replaces_nothing_and_says_so(fragile: FragileService) -> None:
    """Kubernetes 5."""
    a = await fragile.actor("a")
    old = await a.add("pointer", b"old")
    fragile.rig.pointers.disturb(fragile.depose())
    with pytest.raises(Problem) as caught:
        await a.replace("pointer", old.version, b"new")
    assert (caught.value.code, caught.value.outcome) == (Code.NO_LEADER, Outcome.NOT_APPLIED)
    assert fragile.discarded == fragile.put[1:]
    await fragile.rig.leads()
    assert await a.exists("pointer") == old.version
    assert await fragile.blobs() == [b"old"]


async def test_who_never_led_replaces_nothing_itself(site: Site) -> None:
    """Kubernetes 5, at a replica that stands by. (By REST it sends its caller to the leader, who may replace.)"""
    async with (
        fragile_service(site, rest=False) as leader,
        fragile_service(site, rest=False, leading=False) as follower,
    ):
        a = await leader.actor("a")
        old = await a.add("pointer", b"old")
        with pytest.raises(Problem) as caught:
            await replace(a, frontend=follower.frontend).replace("pointer", old.version, b"new")
        assert (caught.value.code, caught.value.outcome) == (Code.NO_LEADER, Outcome.NOT_APPLIED)
        assert await a.exists("pointer") == old.version
        assert await leader.blobs() == [b"old"]


async def test_a_replace_compares_the_version(service: Service) -> None:
    """Kubernetes 10."""
    a, b = await service.actor("a"), await service.actor("b")
    first = await a.add("pointer", b"1")
    await b.lock("pointer")
    second = await b.replace("pointer", first.version, b"2")
    for stale in (first.version, NEVER):
        with pytest.raises(VersionMismatch) as caught:
            await a.replace("pointer", stale, b"3")
        assert caught.value.current == second.version
    assert await a.read("pointer") == b"2"
    await service.blobs_become(b"2")


async def test_a_version_is_not_met_again_after_removal_and_a_new_add(service: Service) -> None:
    """Kubernetes 10, where Flink's counter would begin anew."""
    a = await service.actor("a")
    first = await a.add("pointer", b"1")
    await a.remove("pointer")
    second = await a.add("pointer", b"1")
    assert second.version != first.version
    with pytest.raises(VersionMismatch):
        await a.replace("pointer", first.version, b"2")
    assert await a.read("pointer") == b"1"

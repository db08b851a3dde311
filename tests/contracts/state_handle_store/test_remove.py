"""releaseAndTryRemove."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milepost.errors import DiscardFailed, NotExist, Problem
from milepost.wire import Code, Outcome
from milepost_backends.contract import StorageUnavailable
from milepost_server.model.records import Handle, decode, handle_key
from tests.contracts.state_handle_store.frontends.deployments import Site
from tests.contracts.state_handle_store.frontends.frontend import Removal
from tests.contracts.state_handle_store.frontends.services import FragileService, Service, fragile_service

pytestmark = pytest.mark.anyio

REMOVED = Removal(removed=True)


async def test_a_discard_that_fails_once_leaves_the_removal_standing(fragile: FragileService) -> None:
    """ZooKeeper 3."""
    a = await fragile.actor("a")
    await a.add("pointer", b"state")
    fragile.rig.blobs.deletes.once(StorageUnavailable("by the test"))
    with pytest.raises(DiscardFailed) as caught:
        await a.remove("pointer")
    assert (caught.value.outcome, caught.value.retryable) == (Outcome.APPLIED, True)
    with pytest.raises(NotExist):
        await a.lock("pointer")
    assert await fragile.blobs() == [b"state"]
    assert await a.remove("pointer") == REMOVED
    assert await fragile.blobs() == []
    assert await a.names() == []


async def test_a_removal_is_idempotent_and_the_pointer_stays_stored_until_its_blob_is_gone(
    fragile: FragileService,
) -> None:
    """Kubernetes 8, across a restart."""
    a = await fragile.actor("a")
    await a.add("pointer", b"state")
    await fragile.mark(a, "pointer")
    key = handle_key(fragile.store, "pointer")
    record = decode(key, (await fragile.stored())[key])
    assert isinstance(record, Handle)
    assert record.removing
    assert record.blob
    assert await a.remove("pointer") == REMOVED
    assert fragile.discarded == [record.blob]
    assert await a.remove("pointer") == REMOVED
    assert fragile.discarded == [record.blob]


async def test_removing_what_does_not_exist_is_done_already(service: Service) -> None:
    """ZooKeeper 4."""
    a = await service.actor("a")
    assert await a.remove("pointer") == REMOVED
    await a.add("pointer", b"state")
    assert await a.remove("pointer") == REMOVED
    assert await a.remove("pointer") == REMOVED


async def test_while_another_holds_it_only_ones_own_lock_goes(fragile: FragileService) -> None:
    """ZooKeeper 5."""
    a, b = await fragile.actor("a"), await fragile.actor("b")
    added = await a.add("pointer", b"state")
    await b.lock("pointer")
    assert await a.remove("pointer") == Removal(False, (b.session,))
    assert await a.locks() == []
    assert await b.locks() == ["pointer"]
    assert await b.exists("pointer") == added.version
    assert fragile.discarded == []
    fragile.rig.blobs.deletes.once(StorageUnavailable("by the test"))
    with pytest.raises(DiscardFailed):
        await b.remove("pointer")
    assert [(entry.name, entry.removing) for entry in await b.listing()] == [("pointer", True)]
    assert await b.remove("pointer") == REMOVED
    assert await b.names() == []
    assert fragile.discarded == fragile.put


async def test_removed_it_has_neither_pointer_nor_blob(fragile: FragileService) -> None:
    """ZooKeeper 37."""
    a = await fragile.actor("a")
    await a.add("pointer", b"state")
    assert await a.remove("pointer") == REMOVED
    assert await a.exists("pointer") is None
    assert await a.names() == []
    assert fragile.discarded == fragile.put
    assert await fragile.blobs() == []
    await fragile.restart()
    assert await a.names() == []


async def test_the_last_who_holds_it_removes_it(service: Service) -> None:
    """ZooKeeper 39."""
    a, b = await service.actor("a"), await service.actor("b")
    await a.add("pointer", b"state")
    await b.lock("pointer")
    assert await a.remove("pointer") == Removal(False, (b.session,))
    assert await b.read("pointer") == b"state"
    assert await b.remove("pointer") == REMOVED
    assert await b.exists("pointer") is None
    assert await service.blobs() == []


async def test_all_can_be_released_and_removed(service: Service) -> None:
    """ZooKeeper 46."""
    a = await service.actor("a")
    for number in range(3):
        await a.add(f"pointer-{number}", b"%d" % number)
    for name in await a.names():
        assert await a.remove(name) == REMOVED
    assert await a.names() == []
    assert await a.locks() == []
    assert await service.blobs() == []


async def test_a_deposed_leader_removes_nothing_and_says_so(fragile: FragileService) -> None:
    """Kubernetes 6."""
    a = await fragile.actor("a")
    added = await a.add("pointer", b"state")
    fragile.rig.pointers.disturb(fragile.depose())
    with pytest.raises(Problem) as caught:
        await a.remove("pointer")
    assert (caught.value.code, caught.value.outcome) == (Code.NO_LEADER, Outcome.NOT_APPLIED)
    await fragile.rig.leads()
    assert await a.listing() == [added]
    assert fragile.discarded == []
    assert await a.read("pointer") == b"state"


async def test_who_never_led_removes_nothing_itself(site: Site) -> None:
    """Kubernetes 6, at a replica that stands by. (By REST it sends its caller to the leader, who may remove.)"""
    async with (
        fragile_service(site, rest=False) as leader,
        fragile_service(site, rest=False, leading=False) as follower,
    ):
        a = await leader.actor("a")
        added = await a.add("pointer", b"state")
        with pytest.raises(Problem) as caught:
            await replace(a, frontend=follower.frontend).remove("pointer")
        assert (caught.value.code, caught.value.outcome) == (Code.NO_LEADER, Outcome.NOT_APPLIED)
        assert await a.listing() == [added]
        assert leader.discarded == follower.discarded == []

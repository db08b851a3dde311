"""release, releaseAll, and locks that go with their session."""

from __future__ import annotations

import pytest

from milepost.errors import SessionExpired
from tests.contracts.state_handle_store.frontends.frontend import Removal
from tests.contracts.state_handle_store.frontends.services import FragileService, Service
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_when_a_client_vanishes_its_lock_goes_and_the_entry_stays(fragile: FragileService) -> None:
    """ZooKeeper 41: once its session has ended, not before."""
    a, b = await fragile.actor("a", ttl=5.0), await fragile.actor("b")
    added = await a.add("pointer", b"state")
    await b.lock("pointer")
    assert await b.remove("pointer") == Removal(False, (a.session,))
    fragile.rig.clock.advance(6.0)

    async def lock_is_gone() -> bool:
        return (await b.listing())[0].locks == ()

    await until(lock_is_gone)
    with pytest.raises(SessionExpired):
        await a.locks()
    assert await b.exists("pointer") == added.version
    assert await b.read("pointer") == b"state"
    assert await b.remove("pointer") == Removal(True)


async def test_a_released_lock_is_gone_so_another_can_remove(service: Service) -> None:
    """ZooKeeper 42."""
    a, b = await service.actor("a"), await service.actor("b")
    await a.add("pointer", b"state")
    await a.release("pointer")
    assert await a.locks() == []
    assert (await b.listing())[0].locks == ()
    assert await b.remove("pointer") == Removal(True)
    await a.release("pointer")


async def test_all_locks_are_released(service: Service) -> None:
    """ZooKeeper 43."""
    a, b = await service.actor("a"), await service.actor("b")
    names = [f"pointer-{number}" for number in range(3)]
    for name in names:
        await a.add(name, b"state")
    await b.lock_all()
    assert await a.locks() == names
    await a.release_all()
    assert await a.locks() == []
    assert await b.locks() == names
    await b.release_all()
    assert [entry.locks for entry in await b.listing()] == [(), (), ()]
    assert await a.names() == names

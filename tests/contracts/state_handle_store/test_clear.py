"""clearEntries."""

from __future__ import annotations

import pytest

from milepost_backends.contract import Change
from milepost_server.model.records import handle_key
from tests.contracts.state_handle_store.frontends.actor import Actor
from tests.contracts.state_handle_store.frontends.services import STORE, FragileService, Service

pytestmark = pytest.mark.anyio


async def test_cleared_no_pointer_is_left_and_the_blobs_stay(service: Service) -> None:
    """ZooKeeper 44: also pointers that another session holds."""
    a, b = await service.actor("a"), await service.actor("b")
    for number in range(3):
        await a.add(f"pointer-{number}", b"%d" % number)
    await b.lock("pointer-1")
    assert await a.clear() == 3
    assert await a.names() == []
    assert await a.exists("pointer-1") is None
    assert await a.locks() == await b.locks() == []
    assert await service.blobs() == [b"0", b"1", b"2"]
    await b.add("pointer-1", b"again")
    assert await b.read("pointer-1") == b"again"
    assert await a.clear() == 1
    assert await a.clear() == 0


async def test_what_is_not_of_this_store_stays(fragile: FragileService) -> None:
    """Kubernetes 7: another store's handles, and a record in the same journal that is nobody's."""
    a = await fragile.actor("a")
    await a.add("pointer", b"state")
    other = Actor(a.frontend, f"{STORE}-2", a.caller)
    kept = await other.add("pointer", b"other")
    await fragile.restart_on(Change("notes/from-elsewhere", b"kept"))
    assert await a.clear() == 1
    assert await other.listing() == [kept]
    assert await other.read("pointer") == b"other"
    stored = await fragile.stored()
    assert stored["notes/from-elsewhere"] == b"kept"
    assert handle_key(other.store, "pointer") in stored

"""exists, getAndLock, getAllAndLock and getAllHandles."""

from __future__ import annotations

import asyncio

import pytest

from milepost.errors import NotExist
from tests.contracts.state_handle_store.frontends.services import FragileService, Service
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_absent_is_absent_and_present_has_value_and_version(service: Service) -> None:
    """ZooKeeper 30."""
    a = await service.actor("a")
    assert await a.exists("pointer") is None
    added = await a.add("pointer", b"state")
    assert added.version
    assert await a.exists("pointer") == added.version
    assert await a.lock("pointer") == added
    assert await a.read("pointer") == b"state"
    assert await a.exists("pointers") is None


async def test_an_entry_marked_for_deletion_does_not_exist(fragile: FragileService) -> None:
    """ZooKeeper 31."""
    a = await fragile.actor("a")
    await a.add("pointer", b"state")
    await fragile.mark(a, "pointer")
    assert await a.exists("pointer") is None
    with pytest.raises(NotExist):
        await a.lock("pointer")
    with pytest.raises(NotExist):
        await a.read("pointer")


async def test_getting_what_does_not_exist_names_it(service: Service) -> None:
    """ZooKeeper 32."""
    a = await service.actor("a")
    with pytest.raises(NotExist, match="no-such-pointer"):
        await a.lock("no-such-pointer")
    with pytest.raises(NotExist, match="no-such-pointer"):
        await a.read("no-such-pointer")
    assert await a.locks() == []


async def test_all_that_were_added_are_got(service: Service) -> None:
    """ZooKeeper 33."""
    a, b = await service.actor("a"), await service.actor("b")
    states = {f"pointer-{number}": b"%d" % number for number in range(4)}
    for name, state in states.items():
        await a.add(name, state)
    inventory = await b.lock_all()
    assert inventory.corrupt == {}
    assert {name: await b.read(name) for name in inventory.names} == states
    assert await b.locks() == sorted(states)
    assert all(set(entry.locks) == {a.session, b.session} for entry in inventory.entries)


async def test_an_entry_deleted_in_the_middle_of_a_listing_is_left_out(service: Service) -> None:
    """ZooKeeper 34, the listing being read in pages."""
    a = await service.actor("a")
    for name in ("1", "2", "3", "4"):
        await a.add(name, b"state")
    first, token = await service.frontend.page(service.store, None, 2)
    assert [entry.name for entry in first] == ["1", "2"]
    for gone in ("2", "3"):
        assert (await a.remove(gone)).removed
    rest, end = await service.frontend.page(service.store, token, 2)
    assert [entry.name for entry in rest] == ["4"]
    assert end is None


async def test_an_entry_being_deleted_while_all_are_got_is_left_out(fragile: FragileService) -> None:
    """ZooKeeper 34, its deletion having got as far as its blob."""
    a, b = await fragile.actor("a"), await fragile.actor("b")
    for name in ("1", "2", "3"):
        await a.add(name, b"state")
    fragile.rig.blobs.deletes_pass.clear()
    removing = asyncio.create_task(a.remove("2"))

    async def begun() -> bool:
        return await a.exists("2") is None

    try:
        await until(begun)
        assert (await b.lock_all()).names == ["1", "3"]
    finally:
        fragile.rig.blobs.deletes_pass.set()
    assert (await removing).removed
    assert await b.locks() == ["1", "3"]


async def test_an_entry_marked_for_deletion_is_not_among_all(fragile: FragileService) -> None:
    """ZooKeeper 35."""
    a = await fragile.actor("a")
    for name in ("1", "2", "3"):
        await a.add(name, b"state")
    await fragile.mark(a, "2")
    inventory = await a.lock_all()
    assert inventory.names == ["1", "3"]
    assert inventory.corrupt == {}
    assert await a.locks() == ["1", "3"]


async def test_all_come_sorted_by_name(service: Service) -> None:
    """ZooKeeper 36."""
    a = await service.actor("a")
    names = ["b", "checkpoint-10", "a", "checkpoint-9", "B", "checkpoint-0000000002", "_"]
    for name in names:
        await a.add(name, b"state")
    assert (await a.lock_all()).names == sorted(names)
    assert await a.names() == sorted(names)


async def test_the_list_includes_names_marked_for_deletion(fragile: FragileService) -> None:
    """ZooKeeper 45."""
    a = await fragile.actor("a")
    for name in ("1", "2", "3"):
        await a.add(name, b"state")
    await fragile.mark(a, "2")
    assert [(entry.name, entry.removing) for entry in await a.listing()] == [("1", False), ("2", True), ("3", False)]

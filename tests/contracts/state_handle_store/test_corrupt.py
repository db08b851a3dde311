"""Entries whose record is damaged: reported, and in nobody's way."""

from __future__ import annotations

import pytest

from milepost.errors import Corrupt
from milepost.wire import Outcome
from tests.contracts.state_handle_store.frontends.frontend import Removal
from tests.contracts.state_handle_store.frontends.services import FragileService

pytestmark = pytest.mark.anyio


async def test_of_three_entries_two_are_got_and_the_corrupt_one_is_reported(fragile: FragileService) -> None:
    """ZooKeeper 38."""
    a = await fragile.actor("a")
    for name in ("1", "2", "3"):
        await a.add(name, name.encode())
    await fragile.damage("2")
    inventory = await a.lock_all()
    assert inventory.names == ["1", "3"]
    assert list(inventory.corrupt) == ["2"]
    assert inventory.corrupt["2"]
    assert [await a.read(name) for name in inventory.names] == [b"1", b"3"]


async def test_a_corrupt_entry_cannot_be_locked_by_one_but_removed_by_another(fragile: FragileService) -> None:
    """ZooKeeper 40."""
    a, b = await fragile.actor("a"), await fragile.actor("b")
    await a.add("pointer", b"state")
    await fragile.damage("pointer")
    with pytest.raises(Corrupt, match="pointer") as caught:
        await b.lock("pointer")
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert await b.locks() == []
    assert await a.remove("pointer") == Removal(True)
    assert await a.exists("pointer") is None
    assert (await a.lock_all()).corrupt == {}
    await b.add("pointer", b"new")
    assert await b.read("pointer") == b"new"

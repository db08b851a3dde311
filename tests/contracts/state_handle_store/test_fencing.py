"""Epochs, which Flink's contract has not: once a store had one, only its driver writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from milepost.errors import EpochHeld, Fenced
from milepost.wire import Outcome
from tests.contracts.state_handle_store.frontends.actor import Actor
from tests.contracts.state_handle_store.frontends.services import Service

pytestmark = pytest.mark.anyio

WRITES: dict[str, Callable[[Actor, str], Awaitable[object]]] = {
    "add": lambda actor, _: actor.add("another", b"late"),
    "replace": lambda actor, version: actor.replace("pointer", version, b"late"),
    "remove": lambda actor, _: actor.remove("pointer"),
    "clear": lambda actor, _: actor.clear(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_a_deposed_driver_writes_nothing(
    service: Service, write: Callable[[Actor, str], Awaitable[object]]
) -> None:
    first, second = await service.actor("first"), await service.actor("second")
    deposed = first.under(epoch=await first.campaign())
    added = await deposed.add("pointer", b"state")
    with pytest.raises(EpochHeld):
        await second.campaign()
    await first.end()
    current = second.under(epoch=await second.campaign())
    late = await service.actor("late")
    for stale in (late, late.under(epoch=deposed.caller.epoch), late.under(epoch=99)):
        with pytest.raises(Fenced) as caught:
            await write(stale, added.version)
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert caught.value.current == current.caller.epoch
    assert [entry.version for entry in await second.listing()] == [added.version]
    assert await service.blobs() == [b"state"]
    await current.lock("pointer")
    await write(current, added.version)


async def test_reading_locking_and_releasing_need_no_epoch(service: Service) -> None:
    driver, reader = await service.actor("driver"), await service.actor("reader")
    await driver.under(epoch=await driver.campaign()).add("pointer", b"state")
    assert await reader.read("pointer") == b"state"
    assert (await reader.lock_all()).names == ["pointer"]
    await reader.release("pointer")
    await reader.lock("pointer")
    await reader.release_all()
    assert await reader.locks() == []

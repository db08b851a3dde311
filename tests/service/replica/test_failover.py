"""What a change of leader must not take away: sessions, locks, epochs, keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import EpochHeld, Fenced, SessionExpired
from tests.contracts.state_handle_store.frontends.frontend import Removal
from tests.service.acting import actor
from tests.support.servers.replicas import Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def expires_in(running: Rig, session: str) -> float:
    """Seconds that the session has left."""
    left: float = (await running.operations.sessions.get(session)).answer.body["expires_in"]
    return left


async def ended(running: Rig, session: str) -> None:
    """Wait until the session has ended."""

    async def gone() -> bool:
        try:
            await expires_in(running, session)
        except SessionExpired:
            return True
        return False

    await until(gone)


async def test_every_session_gets_a_full_ttl_again(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await actor(running, "a", ttl=1000.0)
        running.clock.advance(990.0)
        assert 0.0 < await expires_in(running, "a") <= 10.0
        await running.restart()
        assert 900.0 < await expires_in(running, "a") <= 1000.0
        running.clock.advance(1000.0)
        await ended(running, "a")


async def test_the_ttl_counts_anew_also_when_the_old_deadline_has_passed_without_a_leader(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a", ttl=1000.0)
        await a.add("pointer", b"state")
        await running.stop()
        running.clock.advance(5000.0)
        await running.restart()
        assert 900.0 < await expires_in(running, "a") <= 1000.0
        assert await a.locks() == ["pointer"]


async def test_an_ended_session_stays_ended(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a", ttl=10.0)
        await a.add("pointer", b"state")
        running.clock.advance(11.0)
        await ended(running, "a")
        await running.restart()
        with pytest.raises(SessionExpired):
            await a.locks()
        assert [entry.locks for entry in await a.listing()] == [()]


async def test_locks_of_every_kind_survive(tmp_path: Path) -> None:
    """Taken by add, by lock, by locking all; given back one by one, and all at once."""
    async with rig(embedded(tmp_path)) as running:
        a, b, c = [await actor(running, name) for name in "abc"]
        for name in ("1", "2", "3"):
            await a.add(name, b"state")
        await b.lock("1")
        await c.lock_all()
        await c.release("2")
        await a.release_all()
        await a.lock("3")
        held = [await each.locks() for each in (a, b, c)]
        assert held == [["3"], ["1"], ["1", "3"]]
        await running.restart()
        assert [await each.locks() for each in (a, b, c)] == held
        assert await a.remove("1") == Removal(False, ("b", "c"))
        assert await a.remove("2") == Removal(True)


async def test_epochs_survive_and_go_on_rising(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a, b = await actor(running, "a"), await actor(running, "b")
        first = a.under(epoch=await a.campaign())
        await running.restart()
        assert await a.campaign() == first.caller.epoch
        with pytest.raises(EpochHeld):
            await b.campaign()
        await first.add("pointer", b"state")
        await a.end()
        await running.restart()
        second = b.under(epoch=await b.campaign())
        assert (second.caller.epoch or 0) > (first.caller.epoch or 0)
        late = (await actor(running, "late")).under(epoch=first.caller.epoch)
        with pytest.raises(Fenced):
            await late.remove("pointer")
        assert await second.remove("pointer") == Removal(True)


async def test_the_epoch_of_a_dead_driver_stays_current_until_the_next_is_granted(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a, b = await actor(running, "a", ttl=10.0), await actor(running, "b")
        epoch = await a.campaign()
        running.clock.advance(11.0)
        await ended(running, "a")
        await running.restart()
        with pytest.raises(Fenced):
            await b.add("pointer", b"state")
        await b.under(epoch=epoch).add("pointer", b"state")
        assert await b.campaign() == epoch + 1


async def test_a_key_is_answered_the_same_again_by_the_next_leader(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        added = await a.under(key="add").add("pointer", b"1")
        replaced = await a.under(key="replace").replace("pointer", added.version, b"2")
        assert await a.under(key="remove").remove("pointer") == Removal(True)
        newer = await a.add("pointer", b"3")
        await running.restart()
        again = await a.under(key="add", attempt=2).add("pointer", b"1")
        assert again == replace(added, replayed=True)
        again = await a.under(key="replace", attempt=2).replace("pointer", added.version, b"2")
        assert again == replace(replaced, replayed=True)
        assert await a.under(key="remove", attempt=2).remove("pointer") == Removal(True)
        assert await a.listing() == [newer]
        assert await a.read("pointer") == b"3"
        assert running.blobs.discarded == running.blobs.put_keys

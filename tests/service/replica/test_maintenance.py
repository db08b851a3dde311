"""What a leader does beside answering: it expires sessions, finishes removals, and drops what nothing needs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import DiscardFailed, NotExist, SessionExpired, SessionUnknown, Unavailable
from milepost_backends.contract import StorageUnavailable
from milepost_server.model.records import ENDED_SESSION_SECONDS, KEPT_KEYS_SECONDS, handle_key, session_key
from milepost_server.replica import maintenance
from tests.contracts.state_handle_store.frontends.frontend import Removal
from tests.service.acting import STORE, actor
from tests.support.network.faults import Disturbance, before, lose_answer, lose_request
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

AWAY = StorageUnavailable("by the test")
TIDY = replace(PROMPT, maintenance_interval_seconds=0.02)


async def recorded(running: Rig, key: str, there: bool) -> None:
    """Wait until the journal has a record under ``key``, or none any more."""

    async def as_expected() -> bool:
        return (running.replica.journal.read().view.get(key) is not None) is there

    await until(as_expected)


async def keepalive(running: Rig, session: str) -> None:
    await running.operations.sessions.keepalive(session, running.clock())


async def test_a_session_that_is_kept_alive_does_not_end(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await actor(running, "a", ttl=100.0)
        for _ in range(5):
            running.clock.advance(99.0)
            await keepalive(running, "a")
        assert running.replica.leases.expires_in("a") > 90.0


async def test_a_renewal_with_a_shorter_ttl_holds_from_then_on(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a", ttl=3600.0)
        await a.frontend.open_session("a", 10.0)
        assert running.replica.leases.expires_in("a") <= 10.0
        running.clock.advance(11.0)
        await ended(running, "a")


async def ended(running: Rig, session: str) -> None:
    """Wait until the session has ended."""

    async def gone() -> bool:
        try:
            await running.operations.sessions.get(session)
        except SessionExpired:
            return True
        return False

    await until(gone)


@pytest.mark.parametrize("lost", [lose_answer(), lose_request()], ids=["applied", "not-applied"])
async def test_while_an_expiry_is_in_doubt_no_keepalive_is_granted(
    tmp_path: Path, lost: Disturbance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the doubt lasts: a session that is told to be alive must be. Then it is told that it has ended."""
    monkeypatch.setattr(maintenance, "COMMIT_SECONDS", 0.1)
    async with rig(embedded(tmp_path), replace(PROMPT, expire_interval_seconds=0.6, request_seconds=1.5)) as running:
        await actor(running, "a", ttl=10.0)
        running.pointers.disturb(lost)
        running.pointers.take_overs.from_now_on(AWAY)
        begun = running.pointers.committed
        running.clock.advance(11.0)
        await running.commits(begun + 1)
        with pytest.raises(Unavailable):
            await keepalive(running, "a")
        running.pointers.take_overs.heal()
        await ended(running, "a")
        with pytest.raises(SessionExpired):
            await keepalive(running, "a")


async def test_a_renewal_that_waits_behind_a_pending_expiry_is_not_granted(tmp_path: Path) -> None:
    """It came in before the deadline, but is decided only when the expiry is on its way."""
    async with rig(embedded(tmp_path)) as running:
        a, b = await actor(running, "a", ttl=10.0), await actor(running, "b")
        gate = asyncio.Event()
        running.pointers.disturb(before(gate.wait))
        adding = asyncio.create_task(b.add("pointer", b"state"))
        await running.commits(running.pointers.committed + 1)
        renewing = asyncio.create_task(a.frontend.open_session("a", 10.0))
        await asyncio.sleep(0)
        running.clock.advance(11.0)

        async def pending() -> bool:
            return running.replica.leases.ending("a")

        await until(pending)
        gate.set()
        await adding
        with pytest.raises(SessionExpired):
            await renewing


async def test_an_ended_session_is_forgotten_after_an_hour_and_its_id_free(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), TIDY) as running:
        a = await actor(running, "a")
        await a.end()
        with pytest.raises(SessionExpired):
            await a.locks()
        with pytest.raises(SessionExpired):
            await actor(running, "a")
        running.clock.advance(ENDED_SESSION_SECONDS + 10.0)
        await recorded(running, session_key("a"), there=False)
        with pytest.raises(SessionUnknown):
            await a.locks()
        again = await actor(running, "a")
        assert await again.locks() == []


@pytest.mark.parametrize("discarded", [False, True], ids=["blob-there", "blob-gone"])
async def test_a_removal_cut_off_by_a_crash_is_finished(tmp_path: Path, discarded: bool) -> None:
    """After its mark was committed, before or after its blob was discarded; what it hides stays hidden."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        running.blobs.deletes.once(AWAY)
        with pytest.raises(DiscardFailed):
            await a.remove("pointer")
        blob = running.blobs.put_keys[0]
        if discarded:
            await running.blobs.real.delete(blob)
        await running.restart()
        assert [entry.removing for entry in await a.listing()] == [True]
        with pytest.raises(NotExist):
            await a.read("pointer")
        await running.restart(TIDY)

        async def finished() -> bool:
            return await a.listing() == []

        await until(finished)
        assert running.blobs.discarded == [blob]


async def test_a_removal_goes_on_being_tried_while_blobs_cannot_be_discarded(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), TIDY) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        running.blobs.deletes.from_now_on(AWAY)
        with pytest.raises(DiscardFailed):
            await a.remove("pointer")
        await a.add("another", b"other")
        tried = running.blobs.deletes.met

        async def tried_again() -> bool:
            return running.blobs.deletes.met > tried

        await until(tried_again)
        assert [entry.removing for entry in await a.listing()] == [False, True]
        running.blobs.deletes.heal()

        async def finished() -> bool:
            return await a.names() == ["another"]

        await until(finished)
        assert running.blobs.discarded == running.blobs.put_keys[:1]


async def test_one_blob_that_cannot_be_discarded_holds_up_nothing_else(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), TIDY) as running:
        a = await actor(running, "a")
        for name in ("1", "2", "3", "gone"):
            await a.add(name, b"state")
        await a.remove("gone")
        running.blobs.stuck.add(running.blobs.put_keys[0])
        running.blobs.deletes.from_now_on(AWAY)
        for name in ("1", "2", "3"):
            with pytest.raises(DiscardFailed):
                await a.remove(name)
        running.blobs.deletes.heal()

        async def left(*names: str) -> None:
            async def are_left() -> bool:
                return await a.names() == list(names)

            await until(are_left)

        await left("1")
        running.clock.advance(KEPT_KEYS_SECONDS + 10.0)
        await recorded(running, handle_key(STORE, "gone"), there=False)
        assert await a.names() == ["1"]
        running.blobs.stuck.clear()
        await left()


async def test_what_is_gone_is_dropped_when_its_keys_are_too_old(tmp_path: Path) -> None:
    """Ten minutes in which a retry gets the first answer; also when nothing else is written meanwhile."""
    async with rig(embedded(tmp_path), TIDY) as running:
        a = await actor(running, "a", ttl=3600.0)
        await a.under(key="add").add("pointer", b"state")
        await a.under(key="remove").remove("pointer")
        running.clock.advance(KEPT_KEYS_SECONDS - 60.0)
        assert (await a.under(key="add", attempt=2).add("pointer", b"state")).replayed
        assert await a.under(key="remove", attempt=2).remove("pointer") == Removal(True)
        running.clock.advance(120.0)
        await recorded(running, handle_key(STORE, "pointer"), there=False)
        assert not (await a.under(key="add", attempt=3).add("pointer", b"state")).replayed


async def test_the_blobs_of_cleared_handles_are_discarded_in_the_end(tmp_path: Path) -> None:
    settings = replace(TIDY, collect_after_seconds=60.0)
    async with rig(embedded(tmp_path), settings) as running:
        a = await actor(running, "a", ttl=3600.0)
        for name in ("1", "2"):
            await a.add(name, b"state")
        assert await a.clear() == 2
        running.clock.advance(KEPT_KEYS_SECONDS + 10.0)
        for name in ("1", "2"):
            await recorded(running, handle_key(STORE, name), there=False)
        await running.emptied_trash()
        assert running.blobs.discarded == []
        running.clock.advance(61.0)
        await running.emptied_trash()
        assert sorted(running.blobs.discarded) == sorted(running.blobs.put_keys)

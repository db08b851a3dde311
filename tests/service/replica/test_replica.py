"""A replica's way into leadership and out of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import OutcomeUnknown, Unavailable
from milepost.wire import Code
from milepost_backends.contract import BackendError, BlobInfo, Commit, Misconfigured, StorageUnavailable
from milepost_server.blobs import deletion_queue
from milepost_server.journal import JournalSettings
from tests.service.acting import actor, held_back
from tests.support.network.faults import RealCommit, lose_answer
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

IMPATIENT = replace(PROMPT, stand_back_seconds=0.2, journal=JournalSettings(give_up_seconds=0.2))


async def test_a_replica_that_stops_lets_another_lead_at_once(tmp_path: Path) -> None:
    place = embedded(tmp_path)
    async with rig(place) as first, rig(place, leading=False) as second:
        a = await actor(first, "a")
        added = await a.add("pointer", b"state")
        assert not second.replica.leads
        with pytest.raises(Unavailable) as caught:
            await actor(second, "b")
        assert caught.value.code is Code.NO_LEADER
        term = first.replica.journal.term
        await first.stop()
        await second.leads()
        assert second.replica.journal.term == term + 1
        heir = await actor(second, "a")
        assert await heir.listing() == [added]
        assert await heir.read("pointer") == b"state"


async def test_a_replica_that_stops_ends_what_is_on_its_way_and_admits_nothing_more(tmp_path: Path) -> None:
    place = embedded(tmp_path)
    async with rig(place) as first, rig(place, leading=False) as second:
        a = await actor(first, "a")
        on_its_way, gate = await held_back(first, a, "on-its-way")
        stopping = asyncio.create_task(first.replica.resign())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as caught:
            await a.add("too-late", b"2")
        assert caught.value.code is Code.SHUTTING_DOWN
        assert await a.names() == []
        assert not second.replica.leads
        gate.set()
        added = await on_its_way
        await stopping
        await second.leads()
        assert await (await actor(second, "a")).listing() == [added]
        assert first.blobs.discarded == first.blobs.put_keys[1:]


async def test_a_refusal_of_a_replica_that_stops_does_not_wait_for_a_slow_discard_of_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion_queue, "TRY_SECONDS", 3600.0)
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        on_its_way, gate = await held_back(running, a, "on-its-way")
        stopping = asyncio.create_task(running.replica.resign())
        await asyncio.sleep(0)
        running.blobs.deletes_pass.clear()
        async with asyncio.timeout(60):
            with pytest.raises(Unavailable, match="discarded yet") as caught:
                await a.add("too-late", b"2")
        assert caught.value.code is Code.SHUTTING_DOWN
        running.blobs.deletes_pass.set()
        gate.set()
        await on_its_way
        await stopping

        async def discarded() -> bool:
            return running.blobs.discarded == running.blobs.put_keys[1:]

        await until(discarded)


async def test_a_commit_that_never_ends_does_not_keep_a_replica_from_stopping(tmp_path: Path) -> None:
    """Its caller is told that the outcome is unknown; the next leader's take-over makes certain that it cannot be
    committed.
    """
    place = embedded(tmp_path)
    async with rig(place, replace(PROMPT, resign_seconds=0.1)) as first, rig(place, leading=False) as second:
        a = await actor(first, "a")
        on_its_way, _gate = await held_back(first, a, "pointer")
        await first.replica.resign()
        with pytest.raises(OutcomeUnknown):
            await on_its_way
        await second.leads()
        assert await (await actor(second, "a")).names() == []
        assert first.blobs.discarded == []


async def test_a_lease_that_runs_out_while_the_journal_is_taken_over_is_no_fault(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), leading=False) as running:
        faults: list[str] = []
        running.replica.on_fault = lambda: faults.append("fault")
        lost: list[int] = []

        def run_out() -> None:
            if not lost:
                lost.append(1)
                running.election.in_doubt = True

        running.pointers.after_take_over = run_out

        async def happened() -> bool:
            return bool(lost)

        await until(happened)
        for _ in range(5):
            await asyncio.sleep(0.02)
            assert not running.replica.leads
        running.election.in_doubt = False
        await running.leads()
        assert faults == []


async def test_a_leader_that_cannot_take_its_journal_over_lets_another_lead_and_stands_again(tmp_path: Path) -> None:
    """Its pointers do not answer while its election does."""
    place = embedded(tmp_path)
    async with rig(place) as first, rig(place, IMPATIENT, leading=False) as second:
        second.pointers.take_overs.from_now_on(StorageUnavailable("by the test"))
        await first.stop()

        async def won_for_nothing() -> bool:
            return second.pointers.take_overs.met > 0

        await until(won_for_nothing)
        await first.restart()
        assert not second.replica.leads
        second.pointers.take_overs.heal()
        await first.stop()
        await second.leads()


async def test_a_leader_that_cannot_settle_lets_another_lead(tmp_path: Path) -> None:
    """Its lease holds, since that goes another way; the group that is in doubt is resolved by who leads next."""
    place = embedded(tmp_path)
    async with rig(place, IMPATIENT) as first, rig(place, leading=False) as second:
        a = await actor(first, "a")
        first.pointers.disturb(lose_answer())
        first.pointers.take_overs.from_now_on(StorageUnavailable("by the test"))
        with pytest.raises(OutcomeUnknown):
            await a.add("pointer", b"state")
        await second.leads()
        assert await (await actor(second, "a")).names() == ["pointer"]


async def test_a_lost_election_ends_leadership_until_it_is_won_again(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        added = await a.add("pointer", b"state")
        term = running.replica.journal.term
        running.election.in_doubt = True
        with pytest.raises(Unavailable) as caught:
            await a.read("pointer")
        assert caught.value.code is Code.NO_LEADER
        running.election.lose()
        running.election.in_doubt = False
        await running.leads()
        assert running.replica.journal.term == term + 1
        assert await a.listing() == [added]


async def test_a_fault_of_our_own_is_reported_and_ends_leadership(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica that can never lead again must not look alive. The fault is a backend that breaks its contract."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        reported = asyncio.Event()
        running.replica.on_fault = reported.set

        async def broken(_: RealCommit) -> Commit:
            raise ZeroDivisionError("by the test")

        running.pointers.disturb(broken)
        with pytest.raises(OutcomeUnknown):
            await a.add("pointer", b"state")
        async with asyncio.timeout(60):
            await reported.wait()
        assert not running.replica.leads
        assert [record.levelno for record in caplog.records if record.exc_info] == [logging.CRITICAL]


@pytest.mark.parametrize("stopping", [False, True], ids=["lost", "stopping"])
async def test_a_collector_that_is_stuck_does_not_keep_the_election(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopping: bool
) -> None:
    """A listing in a thread lets no cancellation through until it has ended. The fake does so at a chosen context."""
    place, stuck, free = embedded(tmp_path), asyncio.Event(), asyncio.Event()

    async def listing(prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        stuck.set()
        while not free.is_set():
            with suppress(asyncio.CancelledError):
                await free.wait()
        yield BlobInfo(prefix, 1, older_than)

    async with rig(place, replace(PROMPT, collect_interval_seconds=0.01)) as first, rig(place, leading=False) as second:
        monkeypatch.setattr(first.blobs, "list", listing)
        async with asyncio.timeout(60):
            await stuck.wait()
        stepping_down = asyncio.create_task(first.replica.resign()) if stopping else None
        first.election.lose()
        try:
            await second.leads()
            assert not first.replica.leads
        finally:
            free.set()
        if stepping_down is not None:
            await stepping_down


REFUSED = Misconfigured("cannot read the Lease: the API answers 403 Forbidden")


async def opened_late(running: Rig, monkeypatch: pytest.MonkeyPatch, ends: Iterator[BackendError | None]) -> None:
    """Start the replica; each try to open its election ends as the next of ``ends`` says: None opens it. (The seconds
    in which a real API server denies everything cannot be met on purpose.)
    """
    opens = running.election.open

    async def opening() -> None:
        if (error := next(ends)) is not None:
            raise error
        await opens()

    monkeypatch.setattr(running.election, "open", opening)
    await running.start(leading=False)


async def test_a_refusal_by_a_backend_that_has_just_come_back_is_not_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Rig(embedded(tmp_path))
    try:
        await opened_late(running, monkeypatch, iter([StorageUnavailable("away"), REFUSED, REFUSED, None]))
        await running.leads()
        assert running.replica.refusal is None
    finally:
        await running.stop()


async def test_a_refusal_that_lasts_ends_the_replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Rig(embedded(tmp_path))
    ended = asyncio.Event()
    running.replica.on_fault = ended.set

    def ends() -> Iterator[BackendError]:
        yield StorageUnavailable("away")
        yield REFUSED
        running.clock.advance(10.0)
        yield StorageUnavailable("away")
        running.clock.advance(10.0)
        yield REFUSED  # the first again: it was away in between
        assert not ended.is_set()
        running.clock.advance(15.0)
        yield REFUSED

    tries = ends()
    try:
        await opened_late(running, monkeypatch, tries)
        async with asyncio.timeout(60):
            await ended.wait()
        assert running.replica.refusal is REFUSED
        assert list(tries) == []
    finally:
        await running.stop()

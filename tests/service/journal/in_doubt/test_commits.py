"""A commit that did not end well: the term is abandoned, and every request ends as what truly became of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import OutcomeUnknown, Problem
from milepost.wire import Code, Outcome
from milepost_backends.contract import Commit, CommitRefused, Refusal, StorageUnavailable, TakeOverLost, Unknown
from milepost_backends.embedded.pointers import FILE_NAME
from milepost_server.journal import JournalSettings
from milepost_server.model.records import KEPT_KEYS_SECONDS, Session, handle_key
from tests.service.acting import STORE, actor
from tests.support.network.faults import Disturbance, RealCommit, before, lose_answer, lose_request, refuse
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

AWAY = StorageUnavailable("by the test")


async def end_of(call: Awaitable[object]) -> tuple[Code, Outcome]:
    """How a call is refused that must be."""
    with pytest.raises(Problem) as caught:
        await call
    return caught.value.code, caught.value.outcome


@pytest.mark.parametrize("lost", [lose_answer(), lose_request()], ids=["applied", "not-applied"])
async def test_a_whole_group_in_doubt_is_settled_once_and_answered_in_full(
    tmp_path: Path, lost: Disturbance, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it had been committed or not, each request is applied once, and no caller notices."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        journal = running.replica.journal
        term = journal.term
        running.pointers.disturb(lost)
        added = await asyncio.gather(*(a.add(f"h{number}", b"%d" % number) for number in range(20)))
        assert await a.listing() == sorted(added, key=lambda entry: entry.name)
        assert len({entry.version for entry in added}) == 20
        assert journal.term == term + 1
        assert running.blobs.discarded == []
    assert "this replica takes the journal over again: the outcome is unknown: " in caplog.text


async def test_a_refusal_that_depends_on_a_group_in_flight_waits_for_its_end(tmp_path: Path) -> None:
    """B may not be told that the handle exists before A's add of it has been committed; here it never does."""
    async with rig(embedded(tmp_path)) as running:
        a, b = await actor(running, "a"), await actor(running, "b")
        gate = asyncio.Event()
        running.pointers.disturb(before(gate.wait), refuse(Refusal.DENIED))
        other = asyncio.create_task(a.add("other", b"0"))
        await running.commits(running.pointers.committed + 1)
        first = asyncio.create_task(a.add("pointer", b"1"))
        await puts(running, 2)
        second = asyncio.create_task(b.add("pointer", b"2"))
        await puts(running, 3)
        gate.set()
        await other
        assert await end_of(first) == (Code.STORAGE_UNAVAILABLE, Outcome.NOT_APPLIED)
        assert (await second).locks == (b.session,)
        assert await a.read("pointer") == b"2"


async def puts(running: Rig, count: int) -> None:
    """Wait until so many blobs were put, whose requests are submitted next."""

    async def done() -> bool:
        return len(running.blobs.put_keys) == count

    await until(done)


async def test_a_refused_group_ends_with_the_stores_reason_and_the_next_one_lands(tmp_path: Path) -> None:
    """What is behind a group that was refused for a reason of its own is resubmitted, and not refused with it."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        running.pointers.disturb(refuse(Refusal.TOO_LARGE))
        assert await end_of(a.add("first", b"1")) == (Code.TOO_LARGE, Outcome.NOT_APPLIED)
        await a.add("second", b"2")
        assert await a.names() == ["second"]


async def test_a_head_that_moved_under_a_leader_that_still_leads_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """Its lease holds, so nobody else leads: an earlier take-over of its own was committed late, say. It goes on."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")

        async def move() -> None:
            await running.pointers.real.take_over("root")

        running.pointers.disturb(before(move))
        added = await a.add("pointer", b"1")
        assert await a.listing() == [added]
        assert running.blobs.discarded == []


async def test_a_group_cut_off_by_a_lost_lease_is_of_unknown_outcome(tmp_path: Path) -> None:
    """Nothing was heard of the commit, and this process may not ask any more: the next leader knows."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        running.pointers.take_overs.from_now_on(AWAY)
        running.pointers.disturb(lose_answer())
        adding = asyncio.create_task(a.under(key="k").add("pointer", b"1"))

        async def in_doubt() -> bool:
            return running.replica.journal.terms_abandoned == 1

        await until(in_doubt)
        running.election.lose()
        with pytest.raises(OutcomeUnknown):
            await adding
        running.pointers.take_overs.heal()
        await running.leads()
        again = await a.under(key="k", attempt=2).add("pointer", b"1")
        assert again.replayed
        assert await a.listing() == [replace(again, replayed=False)]


async def test_a_group_that_was_judged_when_the_lease_was_lost_is_of_unknown_outcome(tmp_path: Path) -> None:
    """A foreign hand deleted a record, and it is not written back in time: the next leader serves nothing."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"1")
        begun = running.pointers.committed
        with closing(sqlite3.connect(tmp_path / "pointers" / FILE_NAME)) as connection, connection:
            connection.execute("DELETE FROM record WHERE key = ?", (handle_key(STORE, "pointer"),))
        running.pointers.disturb(lose_answer(), *(lose_request() for _ in range(50)))
        adding = asyncio.create_task(a.add("another", b"2"))
        await running.commits(begun + 3)
        running.election.lose()
        async with asyncio.timeout(running.replica.settings.request_seconds / 2):
            assert await end_of(adding) == (Code.OUTCOME_UNKNOWN, Outcome.UNKNOWN)

        async def is_logged() -> bool:
            return running.replica.journal.unproven is not None

        await until(is_logged)
        assert not running.replica.leads


async def test_a_journal_that_another_took_over_is_not_taken_back(tmp_path: Path) -> None:
    """Who finds in resolving that the head has moved on does not lead any more, and cannot tell what was committed."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        running.pointers.take_overs.once(TakeOverLost("by the test"))
        running.pointers.disturb(lose_answer())
        generation = running.replica.journal.generation
        assert await end_of(a.add("pointer", b"1")) == (Code.OUTCOME_UNKNOWN, Outcome.UNKNOWN)
        await running.leads()
        assert running.replica.journal.generation == generation + 1
        assert await a.names() == ["pointer"]
        assert running.blobs.discarded == []


async def test_a_leader_whose_lease_ended_during_its_take_over_goes_on_with_nothing(tmp_path: Path) -> None:
    """It may have taken the journal from its successor, who cannot know yet and answers reads."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        running.pointers.after_take_over = lambda: setattr(running.election, "in_doubt", True)
        running.pointers.disturb(lose_request())
        assert await end_of(a.add("pointer", b"1")) == (Code.OUTCOME_UNKNOWN, Outcome.UNKNOWN)
        assert running.pointers.committed == 2
        running.pointers.after_take_over = lambda: None
        running.election.in_doubt = False
        await running.leads()
        assert await a.names() == []


async def test_a_group_that_arrives_after_its_term_was_burnt_does_not_land(tmp_path: Path) -> None:
    """It was given up for lost, and its requests were submitted again; then the network lets go of it."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        delayed: list[RealCommit] = []

        async def hold_back(commit: RealCommit) -> Commit:
            delayed.append(commit)
            return Unknown("nothing was heard")

        running.pointers.disturb(hold_back)
        added = await a.add("pointer", b"1")
        late = await delayed[0]()
        assert isinstance(late, CommitRefused)
        assert late.reason is Refusal.HEAD_MOVED
        replaced = await a.replace("pointer", added.version, b"2")
        await running.restart()
        assert await a.listing() == [replaced]


def land_late(running: Rig) -> Disturbance:
    """The group is committed, its answer gets lost, and its caller has given up when that is resolved."""

    async def act(commit: RealCommit) -> Commit:
        await commit()
        running.clock.advance(running.replica.settings.request_seconds + 1.0)
        return Unknown("the answer was lost")

    return act


async def test_a_renewal_that_landed_is_not_reported_as_not_applied(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        running.pointers.disturb(land_late(running))
        await a.frontend.open_session("a", 300.0)
        session = running.replica.journal.read().view.session("a")
        assert isinstance(session, Session)
        assert session.ttl == 300.0


async def test_the_removal_of_a_damaged_record_that_landed_is_not_reported_as_not_applied(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"1")
        await running.stop()
        with closing(sqlite3.connect(tmp_path / "pointers" / FILE_NAME)) as connection, connection:
            connection.execute("UPDATE record SET value = '{' WHERE key = ?", (handle_key(STORE, "pointer"),))
        await running.restart()
        running.pointers.disturb(land_late(running))
        assert (await a.remove("pointer")).removed
        assert await a.names() == []


async def test_what_a_scrub_orphaned_is_discarded_although_its_answer_was_lost(tmp_path: Path) -> None:
    """The leader's own requests leave no answers: what they have written tells that they were committed."""
    async with rig(embedded(tmp_path), replace(PROMPT, maintenance_interval_seconds=0.02)) as running:
        a = await actor(running, "a", ttl=3600.0)
        await a.add("pointer", b"1")
        await a.clear()
        running.pointers.disturb(lose_answer())
        running.clock.advance(KEPT_KEYS_SECONDS + 10.0)

        async def discarded() -> bool:  # memory shows the scrub before what follows from it is done
            scrubbed = running.replica.journal.read().view.get(handle_key(STORE, "pointer")) is None
            return scrubbed and running.replica.deletions.holds(running.blobs.put_keys[0])

        await until(discarded)
        assert running.replica.journal.terms_abandoned == 1


async def test_a_commit_that_takes_too_long_is_settled_like_any_other_doubt(tmp_path: Path) -> None:
    settings = replace(PROMPT, journal=JournalSettings(commit_seconds=0.5))
    async with rig(embedded(tmp_path), settings) as running:
        a = await actor(running, "a")
        running.pointers.disturb(before(asyncio.Event().wait))
        added = await a.add("pointer", b"1")
        assert await a.listing() == [added]
        assert running.replica.journal.terms_abandoned >= 1


async def test_a_retry_joins_the_attempt_that_is_in_doubt(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        running.pointers.take_overs.from_now_on(AWAY)
        running.pointers.disturb(lose_request())
        first = asyncio.create_task(a.under(key="k").add("pointer", b"1"))
        await running.commits(2)
        second = asyncio.create_task(a.under(key="k", attempt=2).add("pointer", b"1"))
        await puts(running, 2)
        running.pointers.take_overs.heal()
        assert await second == replace(await first, replayed=True)
        await running.emptied_trash()
        assert running.blobs.discarded == running.blobs.put_keys[1:]
        assert await a.read("pointer") == b"1"


async def test_while_the_store_is_away_the_impatient_are_told_and_the_patient_served_later(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        running.pointers.take_overs.from_now_on(AWAY)
        running.pointers.disturb(refuse(Refusal.FAILED))
        assert await end_of(a.add("refused", b"1")) == (Code.STORAGE_UNAVAILABLE, Outcome.NOT_APPLIED)
        patient = asyncio.create_task(a.add("patient", b"2"))
        await puts(running, 2)
        running.replica.submitter.request_seconds = 0.1
        assert await end_of(a.add("impatient", b"3")) == (Code.STORAGE_UNAVAILABLE, Outcome.NOT_APPLIED)
        running.pointers.take_overs.heal()
        added = await patient
        assert await a.listing() == [added]
        refused, _, impatient = running.blobs.put_keys
        assert running.blobs.discarded == [refused, impatient]


async def test_stepping_down_waits_no_longer_than_the_settling_lasts(tmp_path: Path) -> None:
    """The last request on its way is refused for certain: then nothing is left to wait for."""
    async with rig(embedded(tmp_path), replace(PROMPT, resign_seconds=3600.0)) as running:
        a = await actor(running, "a")
        running.pointers.disturb(refuse(Refusal.FULL))
        running.pointers.take_overs.from_now_on(AWAY)
        assert await end_of(a.add("pointer", b"1")) == (Code.STORAGE_FULL, Outcome.NOT_APPLIED)
        stopping = asyncio.create_task(running.stop())
        await asyncio.sleep(0)
        running.pointers.take_overs.heal()
        async with asyncio.timeout(60):
            await stopping

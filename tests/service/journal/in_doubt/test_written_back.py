"""What a foreign hand changed under a leader is written back from memory, however much it is and whatever is denied."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from milepost_backends.contract import Change, Commit, CommitRefused, Head, Refusal, StorageUnavailable
from milepost_backends.embedded.pointers import FILE_NAME
from milepost_server.journal import JournalSettings, loading
from milepost_server.model.records import Handle, handle_key
from tests.service.acting import STORE, actor
from tests.support.network.faults import lose_answer
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig

pytestmark = pytest.mark.anyio

NAMES = [f"h{number:02}" for number in range(30)]


def stored(directory: Path) -> list[str]:
    with closing(sqlite3.connect(directory / "pointers" / FILE_NAME)) as connection:
        found = connection.execute("SELECT key FROM record WHERE key LIKE 'stores/%/handles/%' ORDER BY key")
        return [key.rpartition("/")[2] for (key,) in found]


def delete_all(directory: Path) -> None:
    with closing(sqlite3.connect(directory / "pointers" / FILE_NAME)) as connection, connection:
        connection.execute("DELETE FROM record WHERE key LIKE 'stores/%'")


async def filled(running: Rig) -> None:
    a = await actor(running, "a")
    for name in NAMES:
        await a.add(name, b"state")


async def test_what_takes_long_to_write_back_is_not_given_up_while_it_gets_on(tmp_path: Path) -> None:
    """One record a commit, and slow ones: all together take longer than a take-over, or doing without one, may."""
    settings = replace(PROMPT, journal=JournalSettings(take_over_seconds=2.0, give_up_seconds=2.0))
    async with rig(embedded(tmp_path), settings) as running:
        await filled(running)
        generation = running.replica.journal.generation
        delete_all(tmp_path)
        real = running.pointers.commit

        async def slow(head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
            await asyncio.sleep(0.1)
            return await real(head, changes, revision, digest)

        running.pointers.limits = replace(running.pointers.limits, requests=1)
        running.pointers.disturb(lose_answer())
        running.pointers.commit = slow  # type: ignore[method-assign]
        b = await actor(running, "b")
        assert await b.names() == NAMES
        assert running.replica.journal.generation == generation
        assert running.replica.journal.terms_abandoned == 1
        assert stored(tmp_path) == NAMES


async def test_what_landed_is_shown_at_its_revision_while_other_records_are_written_back(tmp_path: Path) -> None:
    """A write whose answer was lost turns out to have been committed; readers see it before the store is put right."""
    async with rig(embedded(tmp_path)) as running:
        await filled(running)
        real, held, may_go_on = running.pointers.commit, asyncio.Event(), asyncio.Event()

        async def commit(head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
            if head.term > first_term:
                held.set()
                await may_go_on.wait()
            return await real(head, changes, revision, digest)

        a = await actor(running, "a")
        first_term = running.replica.journal.term
        delete_all(tmp_path)
        running.pointers.disturb(lose_answer())
        running.pointers.commit = commit  # type: ignore[method-assign]
        adding = asyncio.create_task(a.add("new", b"state"))
        await held.wait()
        reading = running.replica.journal.read()
        handle = reading.view.handle(STORE, "new")
        assert isinstance(handle, Handle)
        assert reading.revision == handle.changed
        may_go_on.set()
        await adding


async def test_what_takes_long_to_load_is_not_given_up_while_it_gets_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or nobody could ever lead again once there is so much of it, whatever it is that has become slow."""
    monkeypatch.setattr(loading, "_LOAD_CHUNK", 1)
    settings = replace(PROMPT, journal=JournalSettings(take_over_seconds=2.0, give_up_seconds=2.0))
    async with rig(embedded(tmp_path), settings) as running:
        await filled(running)
        real = running.pointers.load

        async def slow(head: Head) -> AsyncIterator[Change]:
            async for change in real(head):
                await asyncio.sleep(0.1)
                yield change

        running.pointers.load = slow  # type: ignore[method-assign]
        running.pointers.disturb(lose_answer())
        b = await actor(running, "b")
        assert await b.names() == NAMES
        assert running.replica.journal.generation == 1
        assert running.replica.journal.terms_abandoned == 1


async def test_a_load_that_does_not_get_on_is_given_up(tmp_path: Path) -> None:
    settings = replace(PROMPT, journal=JournalSettings(take_over_seconds=0.2, give_up_seconds=60.0))
    async with rig(embedded(tmp_path), settings) as running:
        await filled(running)
        real = running.pointers.load
        stuck: list[Head] = []

        async def load(head: Head) -> AsyncIterator[Change]:
            if not stuck:
                stuck.append(head)
                await asyncio.Event().wait()
            async for change in real(head):
                yield change

        running.pointers.load = load  # type: ignore[method-assign]
        running.pointers.disturb(lose_answer())
        await actor(running, "b")
        assert len(stuck) == 1
        assert running.replica.journal.generation == 1


async def test_records_that_the_store_denies_stay_in_memory_and_all_others_are_written_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The store that is embedded denies nothing of a single record; that of ZooKeeper does."""
    denied = {handle_key(STORE, name) for name in (NAMES[7], NAMES[23])}
    async with rig(embedded(tmp_path)) as running:
        await filled(running)
        journal = running.replica.journal
        generation = journal.generation
        delete_all(tmp_path)
        real = running.pointers.commit

        async def denying(head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
            if denied & {key for key, _ in changes}:
                return CommitRefused(Refusal.DENIED, "by the test")
            return await real(head, changes, revision, digest)

        running.pointers.commit = denying  # type: ignore[method-assign]
        running.pointers.disturb(lose_answer())
        b = await actor(running, "b")
        assert await b.names() == NAMES
        assert await b.read(NAMES[7]) == b"state"
        assert (journal.generation, journal.terms_abandoned) == (generation, 1)
        assert stored(tmp_path) == [name for name in NAMES if handle_key(STORE, name) not in denied]
        assert journal.damaged == sorted(denied)
        assert f"the record {min(denied)} could not be written back: by the test" in caplog.text
        running.pointers.commit = real  # type: ignore[method-assign]
        await b.lock(NAMES[7])
        assert journal.damaged == [max(denied)]
        running.pointers.disturb(lose_answer())
        await b.lock(NAMES[8])
        assert journal.damaged == []
        await running.restart()
        assert await (await actor(running, "c")).names() == NAMES


async def test_a_take_over_whose_load_fails_is_known_for_ones_own_in_the_next(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await actor(running, "a")
        known: list[int] = []
        real = running.pointers.take_over

        async def take_over(journal: str, ours: Head | None = None) -> Head:
            assert ours is not None
            known.append(ours.term)
            return await real(journal, ours)

        running.pointers.take_over = take_over  # type: ignore[method-assign]
        running.pointers.take_overs.once(StorageUnavailable("by the test"), after=1)
        running.pointers.disturb(lose_answer())
        await actor(running, "b")
        assert known == [1, 2]
        assert running.replica.journal.term == 3

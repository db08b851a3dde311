"""Attempts of one key side by side, the older one still busy with its bytes or its waiting when the newer one ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import AlreadyExists, EpochHeld, Problem, Unavailable
from milepost.wire import Outcome
from milepost_server.blobs.intake import Incoming
from milepost_server.journal import JournalSettings
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import ReleaseHandle, Resign
from milepost_server.model.requests.trees import OntoExisting
from milepost_server.operations.operations import operations_of
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE
from tests.support.files import put
from tests.support.network.faults import before
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.states import stored_states

pytestmark = pytest.mark.anyio


class SlowBody:
    """Bytes that come in when the test lets them."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.passes = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        self.begun.set()
        await self.passes.wait()
        yield b"state"


async def prompt() -> AsyncIterator[bytes]:
    yield b"state"


async def opened(running: Rig, *names: str) -> None:
    for name in names:
        await running.operations.sessions.open(Caller(Attempt(name)), 600.0, "")


async def test_a_file_that_was_put_again_and_renamed_is_not_put_by_an_attempt_that_comes_in_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(embedded(tmp_path), replace(PROMPT, inline_below=0)) as running:
        await opened(running, "a")
        granted = await running.operations.epochs.campaign(Caller(Attempt("a")), STORE, 0.0)
        epoch, trees, ready = granted.answer.body["epoch"], running.operations.trees, running.replica.manifests.ready
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def slow(_: str) -> None:
            monkeypatch.setattr(running.replica.manifests, "ready", ready)
            begun.set()
            await goes_on.wait()

        monkeypatch.setattr(running.replica.manifests, "ready", slow)
        older = asyncio.create_task(put(running, "state/.0.tmp", epoch, key="put"))
        await begun.wait()
        await put(running, "state/.0.tmp", epoch, key="put", attempt=2)
        assert await trees.rename(At(STORE, "state/.0.tmp"), "state/0", epoch, OntoExisting.REFUSE)
        goes_on.set()
        for late in (older, put(running, "state/.0.tmp", epoch, key="put")):
            with pytest.raises(Problem, match="attempt 2 at this put has begun") as refused:
                await late
            assert refused.value.outcome is Outcome.UNKNOWN
        assert [name for name, _ in await trees.children(At(STORE, "state"))] == ["0"]

        before = set(await stored_states(running.replica.blobs))
        await put(running, "state/.0.tmp", epoch, key="put", attempt=2)  # all of the put is sent once more
        assert [name for name, _ in await trees.children(At(STORE, "state"))] == ["0"]
        await running.emptied_trash()
        assert set(await stored_states(running.replica.blobs)) == before


async def test_an_attempt_whose_bytes_come_in_after_a_retry_was_refused_is_not_applied(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        replica, body = running.replica, SlowBody()
        await opened(running, "a", "b")
        older = asyncio.create_task(
            operations_of(replica).states.add(Caller(Attempt("a", "k")), STORE, "pointer", Incoming(body.chunks()), {})
        )
        await body.begun.wait()
        await operations_of(replica).states.add(Caller(Attempt("b")), STORE, "pointer", Incoming(prompt()), {})
        with pytest.raises(AlreadyExists):
            await operations_of(replica).states.add(
                Caller(Attempt("a", "k", 2)), STORE, "pointer", Incoming(prompt()), {}
            )
        await operations_of(replica).handles.remove(Caller(Attempt("b")), STORE, "pointer", None)
        body.passes.set()
        with pytest.raises(AlreadyExists):
            await older
        assert (await operations_of(replica).handles.list_page(STORE, "", 10)).handles == []
        await running.emptied_trash()
        assert sorted(running.blobs.discarded) == sorted(running.blobs.put_keys)


async def test_a_retry_is_applied_once_while_the_first_attempt_is_still_reading(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        replica, body = running.replica, SlowBody()
        await opened(running, "a")
        older = asyncio.create_task(
            operations_of(replica).states.add(Caller(Attempt("a", "k")), STORE, "pointer", Incoming(body.chunks()), {})
        )
        await body.begun.wait()
        reply = await operations_of(replica).states.add(
            Caller(Attempt("a", "k", 2)), STORE, "pointer", Incoming(prompt()), {}
        )
        body.passes.set()
        joined = await older
        assert (joined.answer.body, joined.answer.replayed) == (reply.answer.body, True)
        assert (await operations_of(replica).handles.list_page(STORE, "", 10)).handles == [dict(reply.answer.body)]
        await running.emptied_trash()
        assert running.blobs.discarded == [running.blobs.put_keys[1]]


@pytest.mark.parametrize("stopping", [False, True], ids=["full", "stopping"])
async def test_a_retry_is_not_refused_while_its_first_attempt_may_land(tmp_path: Path, stopping: bool) -> None:
    """A refusal would say that nothing was applied: for a full queue, and for a replica that is shutting down."""
    few = replace(PROMPT, journal=JournalSettings(most_waiting=1))
    async with rig(embedded(tmp_path), few) as running:
        replica, gate = running.replica, asyncio.Event()
        await opened(running, "a")
        await operations_of(replica).states.add(Caller(Attempt("a")), STORE, "pointer", Incoming(prompt()), {})
        running.pointers.disturb(before(gate.wait))
        begun = running.pointers.committed
        first = asyncio.create_task(operations_of(replica).perform(ReleaseHandle(Attempt("a", "k"), STORE, "pointer")))
        await running.commits(begun + 1)
        other = asyncio.create_task(
            replica.resign() if stopping else operations_of(replica).sessions.open(Caller(Attempt("b")), 600.0, "")
        )
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await operations_of(replica).sessions.open(Caller(Attempt("c")), 600.0, "")
        retry = asyncio.create_task(
            operations_of(replica).perform(ReleaseHandle(Attempt("a", "k", 2), STORE, "pointer"))
        )
        await asyncio.sleep(0)
        gate.set()
        assert not (await first).answer.replayed
        assert (await retry).answer.replayed
        await other


async def test_a_campaign_that_waits_is_not_granted_after_a_retry_was_refused(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        replica = running.replica
        await opened(running, "a", "b")
        await operations_of(replica).epochs.campaign(Caller(Attempt("b")), STORE, 0.0)
        older = asyncio.create_task(operations_of(replica).epochs.campaign(Caller(Attempt("a", "k")), STORE, 60.0))
        await asyncio.sleep(0.05)
        with pytest.raises(EpochHeld):
            await operations_of(replica).epochs.campaign(Caller(Attempt("a", "k", 2)), STORE, 0.0)
        await operations_of(replica).perform(Resign(Attempt("b"), STORE))
        with pytest.raises(EpochHeld):
            await older
        assert operations_of(replica).epochs.current(STORE).answer.body["session"] is None

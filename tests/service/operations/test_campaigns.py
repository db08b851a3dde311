"""Waiting for an epoch: who is woken, in which order, and who is not granted it any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from milepost.errors import EpochHeld, SessionExpired, Unavailable
from milepost_server.memory.view import View
from milepost_server.model.records import Session
from milepost_server.model.requests.base import Attempt, Request
from milepost_server.model.requests.handles import Campaign, Resign
from milepost_server.model.requests.sessions import EndSession
from milepost_server.operations import epochs
from milepost_server.replica.epoch_queues import EpochQueues
from milepost_server.replica.submitter import Caller
from milepost_server.rules import decide
from milepost_server.rules.decisions import Decision, DecisionContext
from tests.service.acting import STORE, actor
from tests.support.servers.replicas import Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

WAIT = 60.0
Poll = asyncio.Task[int]


async def granted(running: Rig, session: str, gone: asyncio.Future[None] | None = None, store: str = STORE) -> int:
    """The epoch, waited for."""
    reply = await running.operations.epochs.campaign(Caller(Attempt(session)), store, WAIT, gone)
    epoch: int = reply.answer.body["epoch"]
    return epoch


async def waiting(running: Rig, session: str, gone: asyncio.Future[None] | None = None) -> Poll:
    """A poll that has been refused once, and waits."""
    poll = asyncio.create_task(granted(running, session, gone))
    line = running.replica.epoch_queues._of_session

    async def waits() -> bool:
        return session in line

    await until(waits)
    return poll


async def resign(running: Rig, session: str) -> None:
    await running.operations.perform(Resign(Attempt(session), STORE))


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions whose campaigns were decided, one entry for each time."""
    real = decide.HANDLERS[Campaign]
    asked: list[str] = []

    def campaign(view: View, request: Campaign, context: DecisionContext) -> Decision:
        asked.append(request.session)
        return real(view, request, context)

    kind: type[Request] = Campaign
    monkeypatch.setitem(decide.HANDLERS, kind, campaign)
    return asked


async def test_commits_that_free_no_epoch_wake_nobody(tmp_path: Path, decided: list[str]) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await granted(running, "a", store="another")
        assert await granted(running, "a") == 1
        polls = []
        for number in range(20):
            await actor(running, f"s{number}")
            polls.append(await waiting(running, f"s{number}"))
        decided.clear()
        for number in range(5):
            await a.under(epoch=1).add(str(number), b"state")
        await running.operations.perform(Resign(Attempt("a"), "another"))
        await asyncio.sleep(0.05)
        assert decided == []
        for poll in polls:
            poll.cancel()


async def test_an_epoch_that_is_free_is_offered_to_one_after_the_other(tmp_path: Path, decided: list[str]) -> None:
    async with rig(embedded(tmp_path)) as running:
        polls = {}
        for session in ("a", "b", "c", "d", "e"):
            await actor(running, session)
        await granted(running, "a")
        for session in ("b", "c", "d", "e"):
            polls[session] = await waiting(running, session)
        decided.clear()
        await resign(running, "a")
        assert await polls["b"] == 2
        assert decided == ["b"]
        await running.operations.perform(EndSession(Attempt("b")))
        assert await polls["c"] == 3
        assert decided == ["b", "c"]
        polls["d"].cancel()
        await resign(running, "c")
        assert await polls["e"] == 4


async def test_who_has_hung_up_is_not_granted_it_and_holds_up_nobody(tmp_path: Path, decided: list[str]) -> None:
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b", "c"):
            await actor(running, session)
        await granted(running, "a")
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = await waiting(running, "b", gone)
        staying = await waiting(running, "c")
        decided.clear()
        gone.set_result(None)
        await resign(running, "a")
        assert await staying == 2
        with pytest.raises(EpochHeld):
            await left
        assert decided == ["c"]


async def test_who_was_called_and_leaves_lets_the_next_one_be_called() -> None:
    epoch_queues = EpochQueues()
    first, second, third = (epoch_queues.place(STORE, session) for session in ("b", "c", "d"))
    leaving, following, last = first.__enter__(), second.__enter__(), third.__enter__()
    epoch_queues.held(leaving.queue, "a")
    epoch_queues.committed([Session("a", 1.0, 1, ended=2)])
    assert [place.called for place in (leaving, following, last)] == [True, False, False]
    first.__exit__(None, None, None)
    assert [place.called for place in (following, last)] == [True, False]
    epoch_queues.pass_over(following)
    assert [place.called for place in (following, last)] == [False, True]


async def test_a_session_that_ends_while_it_waits_is_told_at_once(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b"):
            await actor(running, session)
        await granted(running, "a")
        poll = await waiting(running, "b")
        await running.operations.perform(EndSession(Attempt("b")))
        with pytest.raises(SessionExpired):
            await poll


async def test_who_waits_is_granted_it_only_while_his_session_is_kept_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may count his session as lost, from what he knows, long before it ends here."""
    monkeypatch.setattr(epochs, "_LOOK_SECONDS", 0.05)
    async with rig(embedded(tmp_path)) as running:
        await actor(running, "a", ttl=1000.0)
        for session in ("b", "c"):
            await actor(running, session, ttl=100.0)
        await granted(running, "a")
        silent, heard_of = await waiting(running, "b"), await waiting(running, "c")
        running.clock.advance(51.0)
        await resign(running, "a")
        await asyncio.sleep(0.05)
        assert not silent.done()
        assert not heard_of.done()
        await running.operations.sessions.keepalive("c", running.clock())
        assert await heard_of == 2
        running.clock.advance(10.0)
        with pytest.raises(EpochHeld):
            await silent


async def test_after_a_failover_a_session_has_to_be_heard_of(tmp_path: Path) -> None:
    """It got a full TTL again, but not from its client."""
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b"):
            await actor(running, session)
        await granted(running, "a")
        await running.restart()
        poll = await waiting(running, "b")
        await resign(running, "a")
        await asyncio.sleep(0.05)
        assert not poll.done()
        await running.operations.sessions.keepalive("b", running.clock())
        assert await poll == 2


async def test_nobody_waits_for_a_leader_that_is_none_any_more(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b"):
            await actor(running, session)
        await granted(running, "a")
        poll = await waiting(running, "b")
        await running.stop()
        with pytest.raises(Unavailable):
            await poll


async def test_nothing_is_kept_of_who_waited(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        for session in ("a", "b"):
            await actor(running, session)
        await granted(running, "a")
        poll = await waiting(running, "b")
        await resign(running, "a")
        await poll
        epoch_queues, changes = running.replica.epoch_queues, running.replica.changes
        assert not any([epoch_queues._queues, epoch_queues._held_by, epoch_queues._of_session, changes._waiting])

"""A job as a whole: what became of its driver, who stands by, and what it has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from milepost.errors import NotExist
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Resign
from milepost_server.model.requests.sessions import EndSession
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE, actor
from tests.support.files import put
from tests.support.servers.replicas import Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def described(running: Rig) -> Mapping[str, Any]:
    body: Mapping[str, Any] = (await running.operations.jobs.describe(STORE)).answer.body
    return body


async def standing_by(running: Rig, session: str, number: int) -> asyncio.Task[Any]:
    """Let a session wait for the epoch, as the standby with this number."""
    campaign = running.operations.epochs.campaign(Caller(Attempt(session)), STORE, 60.0)
    waiting = asyncio.create_task(campaign)

    async def waits() -> bool:
        return len(running.replica.epoch_queues.standbys(STORE)) == number

    await until(waits)
    return waiting


async def test_a_job_that_nobody_has_heard_of_does_not_exist(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        with pytest.raises(NotExist):
            await described(running)


async def test_its_state_says_what_became_of_the_driver(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("handle", b"state")
        assert (await described(running)).items() >= {"state": "new", "epoch": 0, "session": None, "handles": 1}.items()
        await a.campaign()
        led = await described(running)
        assert (led["state"], led["epoch"], led["session"]) == ("led", 1, "a")
        assert led["expires_in"] > 0
        await running.operations.perform(Resign(Attempt("a"), STORE))
        assert ((await described(running))["state"], led["standbyCount"]) == ("resigned", 0)
        await (await actor(running, "b")).campaign()
        await running.operations.perform(EndSession(Attempt("b")))
        lost = await described(running)
        assert (lost["state"], lost["epoch"], lost["session"], lost["expires_in"]) == ("lost", 2, None, None)


async def test_standbys_are_named_in_their_turn_until_they_lead_or_leave(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).campaign()
        for session in ("b", "c"):
            await actor(running, session)
        waiting = [await standing_by(running, session, number) for number, session in enumerate(("b", "c"), 1)]
        found = await described(running)
        assert [standby["session"] for standby in found["standbys"]] == ["b", "c"]
        assert found["standbyCount"] == 2
        assert all(standby["since"] and standby["expires_in"] > 0 for standby in found["standbys"])
        await running.operations.perform(Resign(Attempt("a"), STORE))
        await waiting[0]
        found = await described(running)
        assert (found["session"], [standby["session"] for standby in found["standbys"]]) == ("b", ["c"])
        waiting[1].cancel()
        await asyncio.wait(waiting)
        assert (await described(running))["standbys"] == []


async def test_its_snapshots_have_the_time_and_the_epoch_of_each_batch(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for batch in range(3):
            await put(running, f"checkpoint/commits/{batch}", epoch, b"v1", inline=True)
        found = await described(running)
        assert [(each["directory"], each["batch"], each["epoch"]) for each in found["snapshots"]] == [
            ("checkpoint", batch, epoch) for batch in range(3)
        ]
        assert all(each["taken"] for each in found["snapshots"])

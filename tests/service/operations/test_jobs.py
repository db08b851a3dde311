"""A job as a whole: what became of its driver, who stands by, and what it has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from milepost.errors import NotExist
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt, Store, store_key, tree_key
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Resign
from milepost_server.model.requests.sessions import EndSession
from milepost_server.model.trees import Manifest, Tree
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


async def test_a_batch_that_is_begun_and_not_committed_is_named_with_its_epoch(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for path in ("offsets/0", "commits/0", "offsets/1"):
            await put(running, f"checkpoint/{path}", epoch, b"v1", inline=True)
        (begun,) = (await described(running))["begun"]
        await running.operations.perform(EndSession(Attempt("a")))
        assert (await described(running))["begun"] == [begun]
        assert (begun["directory"], begun["batch"], begun["epoch"]) == ("checkpoint", 1, 1)
        epoch = await (await actor(running, "b")).campaign()
        await put(running, "checkpoint/commits/1", epoch, b"v1", inline=True)
        assert (await described(running))["begun"] == []


async def listed(running: Rig, after: str = "", limit: int = 9) -> list[dict[str, Any]]:
    page = await running.operations.jobs.list_page(after, limit, lambda name: name != "hidden")
    assert (page.next is None) is (len(page.jobs) < limit)
    return page.jobs


async def test_the_list_says_of_each_job_what_its_description_says(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        for batch in range(3):
            await put(running, f"checkpoint/commits/{batch}", epoch, b"v1", inline=True)
        running.replica.journal.read().view.state.apply(
            (store_key(name), Store(name, epoch=1)) for name in ("hidden", "zebra")
        )
        found, zebra = await listed(running)
        info = await described(running)
        for member in ("job", "state", "epoch", "session", "holder", "since", "standbyCount", "damaged"):
            assert found[member] == info[member]
        of_batches = [{**each} for each in info["snapshots"]]
        for each in of_batches:
            del each["epoch"]
        assert (found["oldest"], found["batch"]) == (of_batches[0], of_batches[-1])
        assert (zebra["job"], zebra["state"], zebra["batch"]) == ("zebra", "resigned", None)
        assert [each["job"] for each in await listed(running, STORE)] == ["zebra"]
        assert [each["job"] for each in await listed(running, "", 1)] == [STORE]


async def test_the_time_of_a_batch_is_known_though_its_manifest_was_not_loaded(tmp_path: Path) -> None:
    """As after a change of leader. Only of a snapshot that an earlier release took, the time may be unknown."""
    async with rig(embedded(tmp_path)) as running:
        epoch = await (await actor(running, "a")).campaign()
        await put(running, "checkpoint/commits/0", epoch, b"v1", inline=True)
        state = running.replica.journal.read().view.state
        (before,) = await listed(running)
        tree = state.tree(STORE)
        assert isinstance(tree, Tree)
        assert tree.snapshots[0].taken == before["batch"]["taken"] is not None
        old = replace(tree, snapshots=(replace(tree.snapshots[0], taken=""),))
        state.apply([(tree_key(STORE), old)])
        assert await listed(running) == [before]
        manifests = (Manifest("absent", 1, "", 1),)
        path = path_key(STORE, "checkpoint/commits/0")
        state.apply([(tree_key(STORE), replace(tree, manifests=manifests)), (path, None)])
        assert await listed(running) == [before]
        state.apply([(tree_key(STORE), replace(old, manifests=manifests))])
        assert (await listed(running))[0]["batch"]["taken"] is None


async def test_a_job_that_cannot_be_read_is_listed_as_far_as_it_can(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).campaign()
        state = running.replica.journal.read().view.state
        state.apply([(tree_key(STORE), Corrupt("tree", "damaged"))])
        (found,) = await listed(running)
        assert (found["state"], found["batch"], found["damaged"]) == ("led", None, 1)
        state.apply([(store_key(STORE), Corrupt(STORE, "damaged"))])
        (found,) = await listed(running)
        assert (found["state"], found["epoch"], found["damaged"]) == ("damaged", None, 2)

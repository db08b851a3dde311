"""A dropped job leaves no bytes of its files behind, and another job can begin there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import EpochHeld, NotExist, Problem
from milepost.wire import Code
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Resign
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller
from tests.service.acting import STORE, actor
from tests.service.operations.test_cloning import CLONE, COPIED, SETTINGS, clone, kept, shown, target
from tests.support.files import put
from tests.support.servers.replicas import embedded, rig
from tests.support.states import stored_states

pytestmark = pytest.mark.anyio


async def test_the_bytes_go_and_a_clone_begins_under_a_greater_epoch(tmp_path: Path) -> None:
    """The dropped job is itself a clone, with a manifest, packed files and blobs of single files."""
    async with rig(embedded(tmp_path), SETTINGS) as running:
        await kept(running)
        await running.emptied_trash()
        before = set(await stored_states(running.replica.blobs))
        caller = await target(running)
        await clone(running, caller)
        assert set(await stored_states(running.replica.blobs)) > before
        dropped = await running.operations.dropping.drop(replace(caller, attempt=Attempt("b", "drop")), CLONE)
        assert dropped.answer.body == {"handles": 0, "snapshots": 1}
        assert await shown(running) == {}
        assert (await running.operations.jobs.describe(CLONE)).answer.body["state"] == "dropped"
        await actor(running, "c")
        with pytest.raises(EpochHeld):
            await running.operations.epochs.campaign(Caller(Attempt("c")), CLONE, 0.0)
        jobs = running.operations.jobs
        pages = [await jobs.list_page("", 10, lambda _: True, dropped=each) for each in (False, True)]
        assert [[job["job"] for job in page.jobs] for page in pages] == [[STORE], [CLONE]]
        await running.operations.perform(Resign(Attempt("b"), CLONE))
        again = replace(await target(running), attempt=Attempt("b", "another clone"))
        assert (again.epoch or 0) > (caller.epoch or 0)

        await clone(running, again)
        assert await shown(running) == COPIED
        await running.operations.dropping.drop(replace(again, attempt=Attempt("b", "drop again")), CLONE)
        await running.replica._trimming.trim(CLONE)
        await running.emptied_trash()
        assert set(await stored_states(running.replica.blobs)) == before


async def test_a_drop_outlives_the_leader(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path), SETTINGS) as running:
        epoch = await kept(running)
        driver = (await actor(running, "a")).under(epoch=epoch)
        await driver.add("job", b"record")
        await running.operations.dropping.drop(Caller(Attempt("a", "drop"), epoch), STORE)
    async with rig(embedded(tmp_path), SETTINGS) as running:
        page = await running.operations.jobs.list_page("", 10, lambda _: True, dropped=True)
        assert [job["job"] for job in page.jobs] == [STORE]
        assert running.operations.jobs.count() == 0
        with pytest.raises(Problem) as fenced:
            await put(running, "checkpoint/offsets/9", epoch - 1, b"late", inline=True)
        assert fenced.value.code is Code.FENCED
        with pytest.raises(NotExist):
            await (await actor(running, "c")).read("job")
        assert await running.operations.trees.children(At(STORE, "")) == []

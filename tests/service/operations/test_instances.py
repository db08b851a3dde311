"""The record of loaded state stores on a replica: a change of leader forgets it, and executors fill it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.operations.instances import InstanceOperations
from milepost_server.rules.instances import Instance, Limits, Location
from tests.service.acting import STORE
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

ONE, OTHER = Instance("run", 0, 1, "default"), Instance("run", 0, 2, "default")
HERE, THERE = Location("host-1", "1"), Location("host-2", "2")


def operations(running: Rig) -> InstanceOperations:
    return running.operations.instances


def executors(running: Rig) -> dict[int, str]:
    body = operations(running).locations(STORE, [ONE, OTHER]).answer.body
    return {entry["partition"]: entry["executor"] for entry in body["locations"]}


async def test_a_change_of_leader_forgets_and_executors_fill_it_again(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        before = operations(running).report(STORE, None, HERE, [ONE, OTHER], []).answer.body["record"]
        await running.restart()
        assert executors(running) == {}
        assert operations(running).report(STORE, None, THERE, [OTHER], []).answer.body["unload"] == []
        answer = operations(running).verify(STORE, None, HERE, before, [ONE, OTHER]).answer.body
        assert [one["partition"] for one in answer["active"]] == [ONE.partition]
        assert answer["record"] != before
        assert executors(running) == {1: "1", 2: "2"}


async def test_a_leader_that_lost_the_election_forgets_too(tmp_path: Path) -> None:
    """The same process leads again: meanwhile another one may have led, and heard of newer things."""
    async with rig(embedded(tmp_path)) as running:
        operations(running).report(STORE, None, HERE, [ONE], [])

        async def leads() -> bool:
            return running.replica.leads

        await running.replica.step_down()
        await until(leads)
        assert executors(running) == {}


async def test_nothing_is_said_while_the_lease_is_in_doubt(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        at_work = operations(running)
        at_work.report(STORE, None, HERE, [ONE], [])
        await running.replica.resign()
        asks: list[Callable[[], object]] = [
            lambda: at_work.report(STORE, None, HERE, [ONE], []),
            lambda: at_work.verify(STORE, None, HERE, "", [ONE]),
            lambda: at_work.locations(STORE, [ONE]),
        ]
        for ask in asks:
            with pytest.raises(Problem) as raised:
                ask()
            assert raised.value.code is Code.NO_LEADER


async def test_upkeep_removes_what_nobody_confirmed(tmp_path: Path) -> None:
    settings = replace(PROMPT, maintenance_interval_seconds=0.02, instances=Limits(seconds=600.0))
    async with rig(embedded(tmp_path), settings) as running:
        operations(running).report(STORE, None, HERE, [ONE, OTHER], [])
        running.clock.advance(599.0)
        operations(running).verify(STORE, None, HERE, "", [ONE])
        running.clock.advance(2.0)
        assert executors(running) == {1: "1"}

        async def swept() -> bool:
            return len(running.replica.instances) == 1

        await until(swept)


async def test_a_run_among_many_is_deactivated_in_slices(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        for run in ("a", "b"):
            for first in range(0, 5000, 100):
                loaded = [Instance(run, 0, first + each, "default") for each in range(100)]
                operations(running).report(STORE, None, HERE if run == "a" else THERE, loaded, [])
        ended = await operations(running).deactivate(STORE, None, None, "a", None)
        assert ended.answer.body == {"deactivated": 5000}
        ended = await operations(running).deactivate(STORE, None, None, None, THERE.executor)
        assert ended.answer.body == {"deactivated": 5000}
        assert len(running.replica.instances) == 0

"""A service on pointers in Kubernetes under whose hands somebody else changes ConfigMaps, and one that is full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_backends.kubernetes.election.election import KubernetesElection
from milepost_backends.kubernetes.pointers.store import KubernetesPointers
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.intake import Incoming
from tests.backends.kubernetes.places import LAYOUT, Outsider
from tests.contracts.places import Services
from tests.contracts.state_handle_store.frontends.actor import Actor
from tests.service.acting import STORE, actor
from tests.support.servers import kubernetes
from tests.support.servers.kubernetes import LONG, Site
from tests.support.servers.replicas import PROMPT, Backends, Rig
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

SETTINGS = replace(PROMPT, request_seconds=30.0, stand_back_seconds=0.2)


@asynccontextmanager
async def leading(site: Site, directory: Path, **options: str) -> AsyncIterator[Rig]:
    """A replica that leads, whose checks of the ConfigMaps are far away."""

    def build(advertise: str) -> Backends:
        address = site.address(**LONG, **options)
        pointers = KubernetesPointers(address, check_seconds=3600.0)
        return Backends(pointers, KubernetesElection(address, advertise), LocalBlobs(directory / "blobs"))

    rig = Rig(build, SETTINGS)
    try:
        await rig.start()
        yield rig
    finally:
        await rig.stop()


@pytest.fixture
def site(services: Services) -> Site:
    return kubernetes.site(kubernetes.shared_api(services))


def incoming(state: bytes) -> Incoming:
    return Incoming(stream_of(state))


def newest(outsider: Outsider) -> str:
    """The segment that takes the groups."""
    return [name for name in outsider.segments() if outsider.head(name)["state"] == "active"][-1]


def alter(outsider: Outsider) -> None:
    """Alter every record of the newest segment, as somebody else's hand may."""
    name = newest(outsider)
    outsider.patch(name, {"data": dict.fromkeys(outsider.get(name)["data"], "theirs")})


def passes(problem: Problem) -> None:
    """Raise the problem, unless it says that the storage, or who leads, is in trouble just now."""
    if problem.code not in (Code.STORAGE_UNAVAILABLE, Code.OUTCOME_UNKNOWN, Code.NO_LEADER):
        raise problem


async def add_at_last(writer: Actor, name: str) -> None:
    """Add a handle, however often something keeps it from being committed."""

    async def added() -> bool:
        try:
            await writer.under(key=name, attempt=2).add(name, name.encode())
        except Problem as problem:
            passes(problem)
            return False
        return True

    await until(added, 90)


async def all_there(rig: Rig, names: list[str]) -> None:
    """Check that everything is there, also for the next leader."""
    for _ in range(2):
        reader = await actor(rig, "reader")
        for name in names:
            assert await reader.read(name) == name.encode()
        await rig.restart()


async def test_a_hand_that_keeps_altering_the_newest_segment_costs_no_record(site: Site, tmp_path: Path) -> None:
    outsider, names = Outsider(site), [f"h{number}" for number in range(12)]
    async with leading(site, tmp_path) as rig:
        writer = await actor(rig, "writer")
        await add_at_last(writer, names[0])
        stopping = asyncio.Event()

        async def keep_altering() -> None:
            while not stopping.is_set():
                await asyncio.to_thread(alter, outsider)

        altering = [asyncio.create_task(keep_altering()) for _ in range(2)]
        try:
            for name in names[1:6]:
                async with asyncio.timeout(120):
                    try:
                        await writer.under(key=name).add(name, name.encode())
                    except Problem as problem:
                        passes(problem)
        finally:
            stopping.set()
            await asyncio.gather(*altering)
        for name in names[1:]:
            await add_at_last(writer, name)
        await all_there(rig, names)


async def test_an_edit_and_an_api_server_that_is_killed_before_the_next_group_cost_no_record(tmp_path: Path) -> None:
    with kubernetes.running(tmp_path) as api:
        site = kubernetes.site(api)
        outsider, names = Outsider(site), ["h1", "h2", "h3"]
        async with leading(site, tmp_path) as rig:
            writer = await actor(rig, "writer")
            await add_at_last(writer, "h1")
            alter(outsider)
            api.server.kill()
            waiting = asyncio.create_task(add_at_last(writer, "h2"))
            await asyncio.sleep(0.5)
            await asyncio.to_thread(api.start)
            await waiting
            await add_at_last(writer, "h3")
            await all_there(rig, names)


@pytest.mark.parametrize("everything", [False, True])
async def test_a_service_goes_on_without_the_config_maps_that_hold_no_record_or_without_any(
    site: Site, tmp_path: Path, everything: bool
) -> None:
    outsider = Outsider(site)
    async with leading(site, tmp_path) as rig:
        writer = await actor(rig, "writer")
        await add_at_last(writer, "h1")
        for name in outsider.all() if everything else (LAYOUT.witness, outsider.segments()[-1]):
            outsider.delete(name)
        await add_at_last(writer, "h2")
        await all_there(rig, ["h1", "h2"])


async def test_a_full_journal_refuses_adds_one_by_one_and_takes_removals(site: Site, tmp_path: Path) -> None:
    """Sixteen writers at once, with 8 KB of labels each, and a standby that opens a session when all is full."""
    labels = {f"l{number}": "x" * 500 for number in range(16)}
    async with leading(site, tmp_path, most_bytes="1048576", bytes_per_second="100000000") as rig:
        caller = (await actor(rig, "writer")).caller
        refusals, added = list[Problem](), list[str]()

        async def write(writer: int) -> None:
            for number in range(20):
                try:
                    name = f"h{writer}-{number}"
                    await rig.operations.states.add(caller, STORE, name, incoming(b"state"), labels)
                    added.append(name)
                except Problem as problem:
                    refusals.append(problem)
                    return

        await asyncio.gather(*(write(writer) for writer in range(16)))
        assert len(refusals) == 16
        for problem in refusals:
            assert problem.code is Code.STORAGE_FULL
            assert problem.outcome is Outcome.NOT_APPLIED
            assert "MiB" in problem.detail
        assert 80 < len(added) < 130
        assert rig.replica.journal.terms_abandoned == 0
        standby = await actor(rig, "standby")
        epoch = await standby.campaign()
        for name in added[:40]:
            await rig.operations.handles.remove(replace(caller, epoch=epoch), STORE, name, None)
        writer = replace(caller, epoch=epoch)
        for number in range(20):
            await rig.operations.states.add(writer, STORE, f"again-{number}", incoming(b"state"), labels)

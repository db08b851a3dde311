"""The guarantees of a watch, checked over random changes, faults and fail-overs: ordered, unique, complete, resumable.

A client connects and disconnects at random. Each time it resumes at its place; where the leader does not know what came
after it, the client reads the list, and notes a gap. Outside of gaps nothing may be missing, and what the client knows
from events alone must be what the list shows. A client that watches a job has no gaps: every leader knows its history.
"""

from __future__ import annotations

import json
import os
import random
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from milepost.errors import Compacted, MilepostError
from milepost_server.journal import Place
from milepost_server.operations.watching import RunningWatch, WatchEnded
from milepost_server.rules.events import LAST
from tests.contracts.state_handle_store.frontends.actor import Actor
from tests.service.acting import STORE, actor
from tests.support.network.faults import lose_answer, lose_request
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio
NAMES = "abcde"
JOB = "job"


@dataclass
class Client:
    """A client that knows a store by its events alone, after it has read the list once."""

    running: Rig
    known: dict[str, str] = field(default_factory=dict)
    place: Place | None = None
    places: list[Place] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    gaps: list[tuple[int, int]] = field(default_factory=list)

    async def look(self) -> None:
        """Connect, and take all that is there; where the history is gone, read the list first."""
        if self.place is None:
            await self._read()
        try:
            with self.connected() as watch:
                await self.take(watch)
        except Compacted:
            await self._read()
            await self.look()

    def connected(self) -> AbstractContextManager[RunningWatch]:
        """Watch the store from the place on."""
        return self.running.operations.watching.watch("c", STORE, self.place)

    async def take(self, watch: RunningWatch) -> None:
        """Take all that is there; the end of a leadership ends the watch."""
        assert watch.begin == self.place
        with suppress(WatchEnded):
            while events := await watch.next(0.0):
                for event in events:
                    self._take(Place(*event.place), event.type, json.loads(event.data))
        self.place = watch.place

    async def _read(self) -> None:
        page = await self.running.operations.handles.list_page(STORE, "", 1000)
        self.known = {each["name"]: each["version"] for each in page.handles if not each["removing"]}
        self.gaps.append((self.place.revision if self.place else 0, page.revision))
        self.place = Place(page.revision)

    def _take(self, place: Place, type_: str, data: dict[str, Any]) -> None:
        assert self.place is not None
        assert place > self.place, "an event comes twice, or out of order"
        self.place = place
        self.places.append(place)
        assert data["revision"] == place.revision
        match type_:
            case "added":
                assert data["name"] not in self.known
                self.known[data["name"]] = data["version"]
            case "replaced":
                assert self.known[data["name"]] != data["version"]
                self.known[data["name"]] = data["version"]
            case "removed":
                assert self.known.pop(data["name"]) == data["version"]
            case "cleared":
                self.known.clear()
            case _:
                return
        if type_ in ("added", "replaced"):
            assert data["version"] not in self.versions
            self.versions.add(data["version"])

    def misses(self, revision: int) -> bool:
        """Whether the client may have missed what was committed at a revision."""
        return any(low < revision <= high for low, high in self.gaps)


@dataclass
class JobClient:
    """A client that knows a job by its events alone, from its beginning on."""

    running: Rig
    place: Place = field(default_factory=lambda: Place(0))
    told: list[dict[str, Any]] = field(default_factory=list)

    async def look(self) -> None:
        """Connect, and take all that is there."""
        with self.running.operations.watching.watch_job("c", JOB, self.place) as watch, suppress(WatchEnded):
            while events := await watch.next(0.0):
                for event in events:
                    assert Place(*event.place) > self.place, "an event comes twice, or out of order"
                    self.place = Place(*event.place)
                    self.told.append(json.loads(event.data))
            self.place = watch.place

    async def check(self, epochs: list[int]) -> None:
        """What was told is the history, and has each epoch whose grant was acknowledged."""
        await self.look()
        reply = self.running.operations.history.page(JOB, "", 1000)
        assert self.told == reply.answer.body["entries"][::-1]
        assert epochs == sorted(epochs)
        assert {*epochs} <= {each["epoch"] for each in self.told if each["kind"] == "epoch-granted"}


@dataclass
class Trial:
    """Random changes of one store under random faults, and clients that watch it."""

    running: Rig
    chance: random.Random
    clients: list[Client]
    job: JobClient
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    drivers: int = 0
    fail_overs: int = 0

    async def drive(self) -> None:
        """A driver leads the job and is gone. A grant without an answer is not counted on."""
        self.drivers += 1
        driver = replace(await actor(self.running, f"driver-{self.drivers}", ttl=3600.0), store=JOB)
        if self.chance.random() < 0.3:
            self.running.pointers.disturb(self.chance.choice((lose_answer, lose_request))())
        try:
            self.epochs.append(await driver.campaign())
            await driver.end()
        except MilepostError:
            return

    async def change(self, act: Actor) -> None:
        """One change, whose commit may be disturbed. A change without an answer is not counted on."""
        if self.chance.random() < 0.15:
            self.running.pointers.disturb(self.chance.choice((lose_answer, lose_request))())
        name, entries = self.chance.choice(NAMES), {each.name: each for each in await act.listing()}
        kind = self.chance.random()
        try:
            if name not in entries:
                self.acknowledged.append((name, (await act.add(name, b"1")).version))
            elif kind < 0.6:
                self.acknowledged.append((name, (await act.replace(name, entries[name].version, b"2")).version))
            elif kind < 0.9:
                await act.remove(name)
            else:
                await act.clear()
        except MilepostError:
            return

    async def fail_over(self) -> None:
        """The leader stops in an orderly way, or loses its lease at once."""
        self.fail_overs += 1
        if self.chance.random() < 0.5:
            # those that are connected until the end know all of it, and resume at the next leader
            watching = [client for client in self.clients if client.place and self.chance.random() < 0.7]
            with ExitStack() as opened:
                for client in watching:
                    await client.look()
                watches = [opened.enter_context(client.connected()) for client in watching]
                await self.running.replica.resign()
                for client, watch in zip(watching, watches, strict=True):
                    await client.take(watch)
            gaps = [len(client.gaps) for client in watching]
            await self.running.restart()
            for client in watching:
                await client.look()
            assert [len(client.gaps) for client in watching] == gaps
        else:
            self.running.election.lose()
            await self.running.leads()

    def check(self) -> None:
        for client in self.clients:
            for name, version in self.acknowledged:
                revision = int(version.rpartition(".")[2])
                assert version in client.versions or client.misses(revision), (name, version, client.gaps)
            assert client.places == sorted(set(client.places))
            assert all(place.after == LAST for place in client.places)


async def play(directory: Path, seed: int, changes: int) -> Trial:
    """Play a trial; each client has read all in the end."""
    chance = random.Random(seed)
    async with rig(embedded(directory)) as running:
        act = await actor(running, "a", ttl=3600.0)
        trial = Trial(running, chance, [Client(running) for _ in range(3)], JobClient(running))
        trial.clients[0].place = Place(running.replica.journal.head.revision)
        for _ in range(changes):
            await trial.change(act)
            # the first client looks after each change, the others now and then
            for number, client in enumerate(trial.clients):
                if chance.random() < (1.0, 0.3, 0.05)[number]:
                    await client.look()
            if chance.random() < 0.1:
                await trial.fail_over()
            if not trial.drivers or chance.random() < 0.1:
                await trial.drive()
                if chance.random() < 0.5:
                    await trial.job.look()
        listed = {each.name: each.version for each in await act.listing()}
        for client in trial.clients:
            await client.look()
            assert client.known == listed
        trial.check()
        await trial.job.check(trial.epochs)
        return trial


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_missing_doubled_or_out_of_order(tmp_path: Path, seed: int) -> None:
    trial = await play(tmp_path, seed, 60)
    assert trial.fail_overs
    assert all(client.places for client in trial.clients[:2])


CHANGES = int(os.environ.get("MILEPOST_WATCHED_CHANGES", "400"))
"""The changes of each long trial; one in ten is followed by a fail-over."""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 106))
async def test_over_many_fail_overs(tmp_path: Path, seed: int) -> None:
    trial = await play(tmp_path, seed, CHANGES)
    assert trial.fail_overs > CHANGES / 20

"""One episode: a world, some weather, clients, and at the end a calm in which everything must go on."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from unittest.mock import patch

from milepost.errors import MilepostError
from milepost_server.rules import replays
from tests.simulation.callers.drivers import Driver
from tests.simulation.callers.user import User
from tests.simulation.cells_episode import story
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.plan import Plan
from tests.simulation.world.board import Board
from tests.simulation.world.cells import CellsWorld
from tests.simulation.world.loop import Stalled
from tests.simulation.world.weather import Forecast
from tests.simulation.world.world import World

_RECOVERY_SECONDS = 300.0
_TURNS = 5
_NO_BOUND = 2**40
"""Answers make room by their number alone: the chronicle has to find those of a whole group in the records."""


@dataclass(slots=True)
class Report:
    """How an episode went. ``digest`` is a number that two runs of the same episode share."""

    seed: int
    tally: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    digest: int = 0
    violation: Violation | None = None
    trace: str = ""


def run(plan: Plan) -> Report:
    """Run an episode to its end, or to the first invariant that it breaks."""
    world = World(plan) if plan.cells is None else CellsWorld(plan)
    names = world.random("names of blobs")
    with (
        _quiet(),
        patch.multiple(replays, KEPT_KEYS=plan.kept_keys, KEPT_KEYS_BYTES=_NO_BOUND),
        patch("milepost.core.clock._read", world.loop.time),
        patch("secrets.token_hex", lambda size: names.randbytes(size).hex()),
    ):
        report = Report(plan.seed, world.tally)
        try:
            world.loop.run(_story(world) if isinstance(world, World) else story(world))
        except Violation as violation:
            report.violation = violation
        except (Stalled, AssertionError, MilepostError) as error:
            report.violation = Violation(Invariant.NO_FAULT, repr(error))
        report.trace = str(world.trace)
        report.seconds, report.digest = world.loop.time(), world.trace.digest
        return report


async def _story(world: World) -> None:
    for _ in range(world.plan.replicas):
        world.start()
    board = Board()
    users: list[User | Driver] = [User(world, number, board) for number in range(world.plan.clients)]
    users += [Driver(world, number) for number in range(world.plan.drivers)]
    forecast = Forecast(world)
    weather = asyncio.create_task(forecast.run())
    await asyncio.gather(*(user.live(lambda: world.tally["requests"] >= world.plan.requests) for user in users))
    weather.cancel()
    await forecast.end()
    world.end_faults()
    await _recovers(world, users)
    await _tidies_up(world)
    await world.end()


async def _recovers(world: World, users: Sequence[User | Driver]) -> None:
    """After the last fault, whatever it was, everybody gets on."""
    end = world.loop.time() + _RECOVERY_SECONDS * 10
    for user in users:
        while True:
            try:
                await user.probe()
                break
            except MilepostError as error:
                if world.loop.time() > end:
                    raise Violation(Invariant.RECOVERS, f"{user.name} cannot get on: {error!r}") from error
            await asyncio.sleep(1.0)


async def _tidies_up(world: World) -> None:
    """Removals are finished, and of the bytes those are there that a record names, and no others.

    There is one more leader, which finds nothing but what others left: the collector spares what a leader put itself.
    """
    for place, process in enumerate(world.places):
        world.kill(process)
        world.start(place)
    settings, lease = world.plan.settings, world.plan.election.lease
    turn = (
        settings.maintenance_interval_seconds + settings.collect_interval_seconds + (lease if isfinite(lease) else 0.0)
    )
    bytes_go = settings.upload_seconds + 2 * settings.collect_after_seconds
    end = world.loop.time() + bytes_go + _TURNS * turn + _RECOVERY_SECONDS
    while left_over := world.inspection.left_over(world.trees):
        if world.loop.time() > end:
            raise Violation(Invariant.RECOVERS, f"nobody tidies up: {'; '.join(left_over)}")
        await asyncio.sleep(1.0)


@contextmanager
def _quiet() -> Iterator[None]:
    """The service logs each outage, and here there is nothing else."""
    log = logging.getLogger("milepost")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
